"""The version, by itself: looking it up in the installed package takes longer than all the rest of a manifest."""

VERSION = "0.1.0"
