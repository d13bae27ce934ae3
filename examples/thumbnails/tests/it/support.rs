//! Folders of pictures, and the example run on them.

use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A directory for one test, removed at its end: pictures in `in`, thumbnails in `out`.
pub(crate) struct Album(PathBuf);

impl Album {
    /// Creates an empty one. Tests that run concurrently need different names.
    pub(crate) fn new(name: &str) -> Self {
        let root = testkit::scratch(env!("CARGO_TARGET_TMPDIR"), &format!("thumbnails-{name}"));
        fs::create_dir_all(root.join("in")).expect("a directory can be made");
        Self(root)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn file(&self, name: &str, content: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it is below the album")).expect("it can be made");
        fs::write(path, content).expect("a file can be written");
    }

    /// A command that runs `thumbnails` here, from `in` to `out`.
    pub(crate) fn thumbnails(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thumbnails"));
        command.args(options).args(["in", "out"]);
        command.current_dir(&self.0).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, options: &[&str]) -> Output {
        self.thumbnails(options).output().expect("the program runs")
    }

    /// All files in `out`, including hidden ones.
    pub(crate) fn made(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        for entry in walkdir::WalkDir::new(self.path("out")) {
            let entry = entry.expect("it can be walked");
            if entry.file_type().is_file() {
                let name = entry
                    .path()
                    .strip_prefix(self.path("out"))
                    .expect("it is below");
                let content = fs::read(entry.path()).expect("it can be read");
                files.insert(name.to_string_lossy().into_owned(), content);
            }
        }
        files
    }
}

impl Drop for Album {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok(); // A remaining directory is harmless.
    }
}

/// A picture of this size. Its content depends on the number.
pub(crate) fn picture(width: u32, height: u32, number: u32, format: ImageFormat) -> Vec<u8> {
    let shade = |n: u32| u8::try_from(n % 256).unwrap_or(0);
    let drawn = RgbImage::from_fn(width, height, |x, y| {
        Rgb([shade(3 * x), shade(5 * y), shade((x ^ y) + 40 * number)])
    });
    encoded(&drawn.into(), format)
}

pub(crate) fn encoded(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    picture
        .write_to(&mut file, format)
        .expect("it can be encoded");
    file.into_inner()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("UTF-8")
}
