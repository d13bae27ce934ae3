//! Generated pictures, for a run without arguments.

use crate::args::{Options, default_jobs};
use image::{ImageResult, Rgb, RgbImage};
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// Draws a few pictures, makes their thumbnails, and removes everything.
pub(crate) fn run(
    make_all: impl FnOnce(&Options) -> Result<ExitCode, Box<dyn Error>>,
) -> Result<ExitCode, Box<dyn Error>> {
    let root = std::env::temp_dir().join(format!("thumbnails-{}", std::process::id()));
    let folder = root.join("pictures");
    fs::create_dir_all(&folder)?;
    println!("Without arguments: pictures in {}", folder.display());
    let ended = draw(&folder).map_err(Box::from).and_then(|()| {
        make_all(&Options {
            jobs: default_jobs(),
            size: 32,
            output: root.join("thumbnails"),
            folder,
        })
    });
    fs::remove_dir_all(&root)?;
    ended
}

fn draw(folder: &Path) -> ImageResult<()> {
    for number in 0..6_u32 {
        let picture = RgbImage::from_fn(80 + 20 * number, 100, |x, y| {
            let shade = |n: u32| u8::try_from(n % 256).unwrap_or(0);
            Rgb([shade(x * 2), shade(y * 2), shade((x ^ y) * number)])
        });
        let kind = if number % 2 == 0 { "png" } else { "jpg" };
        picture.save(folder.join(format!("{number}.{kind}")))?;
    }
    Ok(())
}
