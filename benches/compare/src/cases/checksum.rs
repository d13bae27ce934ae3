//! Real work: the checksums of up to 20,000 small files.
//!
//! The program is this library's example `checksum` without its output: a walker finds the files in
//! order and submits a task for each, which reads the file in pieces and hashes it. The case adds
//! the checksums up, which also proves that every program has read every file.

use std::cell::RefCell;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::iter::{ParallelBridge, ParallelIterator};
use sha2::{Digest, Sha256};
use walkdir::WalkDir;

use crate::count::{bump, bumps, wait_for};
use crate::meter::{Meter, cores};
use crate::peer::{Job, Peer, Shape};
use crate::peers::{QUICK, rayon_pool, with};
use crate::report::Report;
use measure::case::{Case, Outcome, Run};

const BRIDGE: &str = "rayon par_bridge";

/// As in the example.
const CHUNK: usize = 128 * 1024;
const QUEUE_DEPTH: u32 = 256;

/// The sum of the first words of all checksums. It does not depend on their order.
static SUM: AtomicU64 = AtomicU64::new(0);

/// Adds the checksum of this file. An unreadable file adds nothing, so the total is wrong.
fn add(path: &Path) {
    let _ = hash(path).map(|word| SUM.fetch_add(word, Relaxed));
    bump();
}

fn hash(path: &Path) -> io::Result<u64> {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let mut file = File::open(path)?;
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(CHUNK, 0);
        let mut hasher = Sha256::new();
        loop {
            match file.read(buffer)? {
                0 => break,
                read => hasher.update(&buffer[..read]),
            }
        }
        let sum = hasher.finalize();
        let first = sum.first_chunk().copied().unwrap_or_default();
        Ok(u64::from_le_bytes(first))
    })
}

/// The files in the order in which the example prints them.
fn walk(tree: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = WalkDir::new(tree).sort_by_file_name().into_iter().flatten();
    entries
        .filter(|entry| entry.file_type().is_file() && entry.depth() == 2)
        .map(walkdir::DirEntry::into_path)
}

struct Sum<'a>(&'a Path);

impl Job for Sum<'_> {
    type Out = ();

    fn run<P: Peer>(self, peer: &'static P) {
        let mut target = bumps();
        for path in walk(self.0) {
            peer.submit(move || add(&path));
            target += 1;
        }
        wait_for(target);
    }
}

fn measure(run: &Run, files: u32) -> Outcome {
    let tree = tree(files)?;
    // Warms the kernel's cache, so that it is warm for every pool.
    walk(&tree).for_each(|path| drop(fs::read(path)));
    let meter = Meter::start();
    match run.pool.as_str() {
        BRIDGE => rayon_pool(cores()).install(|| {
            walk(&tree).par_bridge().for_each(|path| add(&path));
        }),
        pool => with(pool, Shape::bounded(cores(), QUEUE_DEPTH), Sum(&tree))?,
    }
    let spent = meter.stop();
    let expected: u64 = fs::read_to_string(tree.join(".sum"))?.trim().parse()?;
    if SUM.load(Relaxed) != expected {
        return Err("the sums are wrong: a file was not read".into());
    }
    let each = |seconds: f64| seconds * 1e6 / f64::from(files);
    Ok(Report::new()
        .with("wall", "us/file", each(spent.wall.as_secs_f64()))
        .with("cpu", "us/file", each(spent.cpu.as_secs_f64())))
}

/// A tree of this many files, created once per number. Its total is in a file next to it.
fn tree(files: u32) -> Result<PathBuf, Box<dyn Error>> {
    let tree = std::env::temp_dir().join(format!("compare-checksum-1-{files}"));
    if tree.join(".sum").exists() {
        return Ok(tree);
    }
    // Created under another name, so that a tree of the right name is always complete.
    let making = tree.with_extension(std::process::id().to_string());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut sum = 0_u64;
    for number in 0..files {
        let folder = making.join(format!("{:03}", number / 100));
        fs::create_dir_all(&folder)?;
        // From 0 to 16 KiB, as source files and small images.
        let words = next() % 2048;
        let bytes: Vec<u8> = (0..words).flat_map(|_| next().to_le_bytes()).collect();
        let path = folder.join(format!("{number:05}.bin"));
        fs::write(&path, bytes)?;
        sum = sum.wrapping_add(hash(&path)?);
    }
    fs::write(making.join(".sum"), sum.to_string())?;
    if fs::rename(&making, &tree).is_err() {
        fs::remove_dir_all(&making)?; // Another process was faster.
    }
    Ok(tree)
}

pub fn cases() -> Vec<Case> {
    let pools = [
        "anthill",
        "rayon",
        BRIDGE,
        "threadpool",
        "crossbeam",
        "tokio spawn_blocking",
    ];
    // The small tree also shows whether memory grows with the number of files.
    let case = |files| {
        Case::new(
            format!("checksum/{files}"),
            "Real work",
            "How long does it take per file to find and hash this many small files?",
            &pools,
            move |run| measure(run, files),
        )
    };
    let quick = [QUICK, &["threadpool"]].concat();
    vec![case(2_000).quick(true, &quick), case(20_000)]
}
