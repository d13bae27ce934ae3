//! Controllers: keys that something is to be done about, again and again, until it holds.
