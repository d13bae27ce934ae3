//! The executors.

mod local;
mod others;
mod ours;
mod smol;
mod tokio;

pub use local::{compio, monoio};
pub use others::{futures_buffered, join_set, may};
pub use ours::{InTokio, Ours};
pub use smol::Smol;
pub use tokio::{Tokio, runtime};
