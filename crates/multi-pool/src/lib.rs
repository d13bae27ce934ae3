//! Several pools behind one face: round robin, least tasks, or a strategy of your own.
#![forbid(unsafe_code)]

mod builder;
mod closures;
mod enter;
mod error;
mod face;
mod func;
mod life;
mod multi;
mod shared;
mod standing;
mod strategy;

pub use builder::MultiBuilder;
pub use closures::{MultiPool, WeakMultiPool};
pub use error::{IndexError, MultiBuildError, MultiWaitError};
pub use func::{MultiFuncPool, WeakMultiFuncPool};
pub use multi::{MultiWorkerPool, WeakMultiWorkerPool};
pub use strategy::{LeastTasks, Load, Loads, RoundRobin, Strategy};
