"""Junction trees and belief propagation."""
