//! The chores of the workspace, as `cargo xtask <chore>`. `cargo xtask --help` lists them.
//!
//! Not for anything that the crates need at build time: no crate depends on this one.
//!
//! # Invariants
//! 1. A chore ends with a one-line summary and exit code 0, or with a one-line error: exit code 1
//!    if a check failed, 2 if a tool is missing (the line says how to install it) or the command
//!    line is invalid.
//! 2. No chore installs anything without `--install`.
//! 3. Build products are below the target directory. Each set of compiler flags has its own
//!    folder there, so that chores do not evict each other's artifacts. Except `api`: it shares the
//!    built dependencies with the documentation, which takes longer than to write the latter again.

mod api;
mod bench;
mod ci;
mod cmutants;
mod crash;
mod deps;
mod examples;
mod flags;
mod hygiene;
mod loom;
mod models;
mod packages;
mod parallel;
mod process;
mod sanitize;
mod shuttle;
mod stores;
mod stress;
mod syscalls;
mod test;
mod versions;
mod workspace;

use std::env;
use std::process::ExitCode;

use flags::XtaskCmd;
use workspace::{MissingTool, Workspace};

fn main() -> ExitCode {
    if let Some(code) = api::rustdoc() {
        return code;
    }
    // The flags belong to another program.
    let mut arguments = env::args_os().skip(1);
    let outcome = if arguments.next().is_some_and(|it| it == "bench") {
        Workspace::locate().and_then(|it| bench::run(&it, &arguments.collect::<Vec<_>>()))
    } else {
        run(flags::Xtask::from_env_or_exit().subcommand)
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            let missing_tool = error.downcast_ref::<MissingTool>().is_some();
            ExitCode::from(if missing_tool { 2 } else { 1 })
        }
    }
}

/// Runs the chore of a command line.
pub(crate) fn chore(words: &[&str]) -> anyhow::Result<()> {
    let words = words.iter().map(Into::into).collect();
    run(flags::Xtask::from_vec(words)?.subcommand)
}

fn run(chore: XtaskCmd) -> anyhow::Result<()> {
    let workspace = Workspace::locate()?;
    match chore {
        XtaskCmd::Ci(flags) => ci::run(&workspace, &flags),
        XtaskCmd::Test(flags) => test::run(&workspace, flags.all, flags.one_core),
        XtaskCmd::Loom(flags) => loom::run(&workspace, &flags),
        XtaskCmd::Shuttle(flags) => shuttle::run(&workspace, &flags, None),
        XtaskCmd::Cmutants(flags) => cmutants::run(&workspace, &flags),
        XtaskCmd::Stress(flags) => stress::run(&workspace, &flags),
        XtaskCmd::Crash(flags) => crash::run(&workspace, &flags),
        XtaskCmd::Versions(flags) => versions::run(&workspace, &flags),
        XtaskCmd::Bench(_) => bench::run(&workspace, &[]),
        XtaskCmd::Sanitize(flags) => sanitize::run(&workspace, &flags),
        XtaskCmd::Syscalls(_) => syscalls::run(&workspace),
        XtaskCmd::Api(flags) => api::run(&workspace, flags.update),
        XtaskCmd::Deps(flags) => deps::run(&workspace, flags.check),
        XtaskCmd::Stores(flags) => stores::run(&workspace, &flags),
        XtaskCmd::Hygiene(flags) => hygiene::run(&workspace, flags.build),
    }
}
