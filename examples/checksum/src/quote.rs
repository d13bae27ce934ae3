//! Quotes names in messages for a shell.
//!
//! A file name is untrusted text: written raw, it could move the cursor or fake a second message.
//! Plain names are not changed. Control characters and bytes that are not UTF-8 become `$'\n'` and
//! `$'\377'`, as in GNU tools.
//!
//! Only for messages. The lines on stdout have another escape, see `line`.

use std::fmt::Write as _;

/// Returns `name` as one word of the shell.
pub(crate) fn quoted(name: &[u8]) -> String {
    if let Ok(name) = str::from_utf8(name)
        && !name.contains(char::is_control)
    {
        if is_plain(name) {
            return name.to_owned();
        }
        if name.contains('\'') && !name.contains(|c| UNFIT_FOR_DOUBLE_QUOTES.contains(c)) {
            return format!("\"{name}\"");
        }
    }
    let mut word = Word::new();
    for piece in name.utf8_chunks() {
        piece.valid().chars().for_each(|c| word.push(c));
        piece.invalid().iter().for_each(|&b| word.push_escape(b));
    }
    word.finish()
}

const SPECIAL: &str = " !\"$&'()*:;<=>?[\\^`|";
const SPECIAL_AT_THE_START: [char; 2] = ['#', '~'];
const UNFIT_FOR_DOUBLE_QUOTES: &str = "!\"#$&()*;<=>?[\\^`{|}~";

fn is_plain(name: &str) -> bool {
    !matches!(name, "" | "{" | "}")
        && !name.contains(|c| SPECIAL.contains(c))
        && !name.starts_with(SPECIAL_AT_THE_START)
}

/// A word of alternating `'..'` and `$'..'` parts.
struct Word {
    text: String,
    in_escapes: bool,
}

impl Word {
    fn new() -> Self {
        Self {
            text: String::from("'"),
            in_escapes: false,
        }
    }

    fn push(&mut self, c: char) {
        if c.is_control() {
            let mut utf8 = [0; 4];
            for &byte in c.encode_utf8(&mut utf8).as_bytes() {
                self.push_escape(byte);
            }
            return;
        }
        if self.in_escapes {
            self.text.push_str("''");
            self.in_escapes = false;
        }
        match c {
            '\'' => self.text.push_str("'\\''"),
            c => self.text.push(c),
        }
    }

    fn push_escape(&mut self, byte: u8) {
        if !self.in_escapes {
            self.text.push_str("'$'");
            self.in_escapes = true;
        }
        let letter = match byte {
            7 => 'a',
            8 => 'b',
            b'\t' => 't',
            b'\n' => 'n',
            11 => 'v',
            12 => 'f',
            b'\r' => 'r',
            _ => {
                write!(self.text, "\\{byte:03o}").expect("a String takes every text");
                return;
            }
        };
        self.text.extend(['\\', letter]);
    }

    fn finish(mut self) -> String {
        self.text.push('\'');
        self.text
    }
}
