"""The version of this tree."""

VERSION = "0.1.0"
