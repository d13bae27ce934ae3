//! Blocking calls of an async program, at most eight at a time and at most 64 waiting.

use std::error::Error;
use std::fs;
use std::time::Duration;

use anthill::{Pool, QueueDepth};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let files = Pool::builder()
        .name("files")
        .capacity(8)
        .queue_depth(QueueDepth::Limited(64))
        .build()?;
    // At a full pool, the first `await` waits without holding a thread of the runtime.
    let manifest = files
        .spawn_async(|| fs::read_to_string("Cargo.toml"))
        .await?;
    let readme = files
        .spawn_async(|| fs::read_to_string("README.md"))
        .await?;
    let (manifest, readme) = (manifest.await??, readme.await??);
    println!(
        "{} and {} lines",
        manifest.lines().count(),
        readme.lines().count()
    );
    // Runs accepted tasks, then ends the threads. No thread of the runtime blocks.
    files.release_timeout_async(Duration::from_secs(10)).await?;
    Ok(())
}
