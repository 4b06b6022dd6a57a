"""What SPSS, Stata and SAS files say of themselves: names, labels, missing codes and types, read without rows."""
