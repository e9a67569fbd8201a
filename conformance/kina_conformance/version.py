"""The version of the suite, apart so that the build reads it without importing anything."""

VERSION = "1.0rc1"
