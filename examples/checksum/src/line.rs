//! The two kinds of output: a line in the format of `sha256sum`, and a message.

use crate::quote::quoted;
use crate::report::Digest;
use std::io;
use std::path::Path;

/// Appends `HEX  NAME\n`, the line that `sha256sum -c` reads.
///
/// A name with a backslash, newline or carriage return is escaped, and its line starts with a
/// backslash, as in `sha256sum` since coreutils 9. Every other byte is written unchanged.
pub(crate) fn push_line(text: &mut Vec<u8>, name: &Path, digest: &Digest) {
    let name = name.as_os_str().as_encoded_bytes();
    if name.iter().any(|&byte| escape(byte).is_some()) {
        text.push(b'\\');
    }
    for byte in digest {
        text.push(HEX[usize::from(byte >> 4)]);
        text.push(HEX[usize::from(byte & 15)]);
    }
    text.extend_from_slice(b"  ");
    for &byte in name {
        match escape(byte) {
            Some(letter) => text.extend([b'\\', letter]),
            None => text.push(byte),
        }
    }
    text.push(b'\n');
}

/// Returns `checksum: NAME: WHAT\n` with the system's error text.
pub(crate) fn message(name: &Path, error: &io::Error) -> String {
    let name = quoted(name.as_os_str().as_encoded_bytes());
    format!("checksum: {name}: {}\n", plain(error))
}

/// The text of `error` without the number that std appends.
pub(crate) fn plain(error: &io::Error) -> String {
    let mut text = error.to_string();
    if let Some(number) = error.raw_os_error()
        && let Some(end) = text.rfind(&format!(" (os error {number})"))
    {
        text.truncate(end);
    }
    text
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn escape(byte: u8) -> Option<u8> {
    match byte {
        b'\\' => Some(b'\\'),
        b'\n' => Some(b'n'),
        b'\r' => Some(b'r'),
        _ => None,
    }
}
