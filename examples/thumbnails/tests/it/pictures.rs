//! The thumbnails, and the messages about them.

use crate::support::{Album, encoded, picture, text};
use image::{ImageFormat, ImageFormat::Jpeg, ImageFormat::Png, ImageReader};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::Cursor;

const SIZE: u32 = 24;

/// Pictures of several sizes, in the order of their names. The fourth is no picture, and the last
/// is truncated.
fn album(name: &str) -> (Album, Vec<(&'static str, Vec<u8>)>) {
    let mut cut = picture(90, 60, 9, Png);
    cut.truncate(cut.len() / 2);
    let files = vec![
        ("a.png", picture(80, 40, 1, Png)),
        ("b.JPG", picture(30, 90, 2, Jpeg)),
        ("c/deep.jpeg", picture(64, 64, 3, Jpeg)),
        ("corrupt.png", b"no picture at all".to_vec()),
        ("small.png", picture(10, 5, 4, Png)),
        ("truly-a-png.jpg", picture(50, 100, 5, Png)),
        ("z-cut.png", cut),
    ];
    let album = Album::new(name);
    for (name, content) in &files {
        album.file(&format!("in/{name}"), content);
    }
    album.file("in/notes.txt", b"not a picture, and not called like one");
    (album, files)
}

/// A plain loop: the thumbnails, and the lines about them.
fn expected(files: &[(&'static str, Vec<u8>)]) -> (BTreeMap<String, Vec<u8>>, String) {
    let (mut made, mut lines) = (BTreeMap::new(), String::new());
    for (name, content) in files {
        let Ok(large) = image::load_from_memory(content) else {
            continue;
        };
        let format: ImageFormat = image::guess_format(content).expect("it was loaded");
        let is_small = large.width().max(large.height()) <= SIZE;
        let small = if is_small {
            large.clone()
        } else {
            large.thumbnail(SIZE, SIZE)
        };
        let (from, to) = (
            (large.width(), large.height()),
            (small.width(), small.height()),
        );
        writeln!(lines, "{name}: {}x{} -> {}x{}", from.0, from.1, to.0, to.1).expect("a string");
        made.insert((*name).to_owned(), encoded(&small, format));
    }
    (made, lines)
}

#[test]
fn thumbnails_equal_those_of_a_plain_loop_with_any_number_of_workers() {
    let (album, files) = album("loop");
    let (made, lines) = expected(&files);
    assert_eq!(made.len(), 5, "two are broken");
    for jobs in ["1", "2", "8"] {
        fs::remove_dir_all(album.path("out")).ok();
        let run = album.run(&["--jobs", jobs, "--size", &SIZE.to_string()]);
        assert_eq!(text(&run.stdout), lines);
        assert_eq!(album.made(), made, "these, and nothing else");
    }
}

#[test]
fn a_broken_file_is_reported_and_the_other_thumbnails_are_made() {
    let (album, _) = album("broken");
    let run = album.run(&[]);
    let messages: Vec<&str> = text(&run.stderr).lines().collect();
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert!(messages[0].starts_with("thumbnails: corrupt.png: "));
    assert!(messages[1].starts_with("thumbnails: z-cut.png: "));
    assert_eq!(messages[2], "thumbnails: 5 made, 2 failed");
    assert_eq!(run.status.code(), Some(1));
}

#[test]
fn no_thumbnail_exceeds_the_requested_size_and_none_is_enlarged() {
    let (album, _) = album("sizes");
    album.run(&["-s", "7"]);
    let sizes: BTreeMap<String, (u32, u32)> = album
        .made()
        .into_iter()
        .map(|(name, file)| {
            let reader = ImageReader::new(Cursor::new(file)).with_guessed_format();
            let size = reader.expect("it is in memory").into_dimensions();
            (name, size.expect("it is whole"))
        })
        .collect();
    assert_eq!(sizes["a.png"], (7, 4));
    assert_eq!(sizes["c/deep.jpeg"], (7, 7));
    assert_eq!(sizes["small.png"], (7, 4));
    assert_eq!(album.run(&[]).status.code(), Some(1));
    let small = image::load_from_memory(&album.made()["small.png"]).expect("it is whole");
    assert_eq!((small.width(), small.height()), (10, 5));
}

#[test]
fn a_thumbnail_that_cannot_be_stored_leaves_no_file() {
    let album = Album::new("unstored");
    album.file("in/a.png", &picture(40, 40, 1, Png));
    album.file("in/b.png", &picture(40, 40, 2, Png));
    album.file("out/a.png/in-the-way", b"a folder has that name");
    let run = album.run(&[]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).starts_with("thumbnails: a.png: "));
    let made: Vec<String> = album.made().into_keys().collect();
    assert_eq!(made, ["a.png/in-the-way", "b.png"]);
}

#[test]
fn pictures_are_not_overwritten_and_no_thumbnails_are_made_of_thumbnails() {
    let album = Album::new("same");
    let original = picture(200, 200, 1, Png);
    album.file("in/a.png", &original);
    let run = |args: [&str; 2]| {
        let mut command = std::process::Command::new(album.thumbnails(&[]).get_program());
        command.args(args).current_dir(album.path("in"));
        command.output().expect("it runs")
    };
    assert_eq!(run([".", "."]).status.code(), Some(1));
    assert_eq!(
        fs::read(album.path("in/a.png")).expect("it is there"),
        original
    );
    for _ in 0..2 {
        let again = run([".", "thumbs"]);
        assert_eq!(text(&again.stderr), "thumbnails: 1 made, 0 failed\n");
    }
}

#[test]
fn a_missing_folder_and_wrong_arguments_are_errors() {
    let album = Album::new("wrong");
    fs::remove_dir(album.path("in")).expect("it is empty");
    let run = album.run(&[]);
    assert_eq!(run.status.code(), Some(1));
    for wrong in [
        ["--jobs", "0"],
        ["--size", "big"],
        ["--size", "5000"],
        ["third", "folder"],
    ] {
        assert_eq!(album.run(&wrong).status.code(), Some(2), "{wrong:?}");
    }
}
