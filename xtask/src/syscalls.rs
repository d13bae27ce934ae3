//! `cargo xtask syscalls`: checks that a busy pool makes no system call per task.

use std::fs;

use anyhow::{Context, Result, ensure};
use xshell::cmd;

use crate::workspace::{Workspace, require};

/// Calls per task that the start, growth and end of the program may cause, spread over its tasks.
const LIMIT: f64 = 0.01;

/// Counts the calls of the example `busy_pool` of `pool-core` under strace.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    require("strace", &["-V"], "apt-get install strace")?;
    let shell = workspace.shell()?;
    let example = ["-p", "pool-core", "--example", "busy_pool"];
    cmd!(shell, "cargo build --release {example...}").run()?;
    let program = workspace.target.join("release/examples/busy_pool");
    let counts = workspace.target.join("busy_pool.strace");
    let output = cmd!(shell, "strace -f -c -o {counts} {program}").read()?;
    let tasks = tasks(&output).context("busy_pool prints no line `tasks N`")?;
    let counts = fs::read_to_string(&counts)?;
    println!("{counts}");
    let calls = calls(&counts).context("strace's table has changed")?;
    let ratio = calls / tasks;
    let summary = format!("syscalls: {calls} calls for {tasks} tasks, {ratio:.5} per task");
    ensure!(ratio <= LIMIT, "{summary}; the limit is {LIMIT}");
    println!("{summary}");
    Ok(())
}

fn tasks(output: &str) -> Option<f64> {
    let mut lines = output.lines();
    lines.find_map(|line| line.strip_prefix("tasks ")?.trim().parse().ok())
}

/// The total number of calls. The columns are: share, seconds, microseconds per call, calls, errors
/// (blank if none), name.
fn calls(table: &str) -> Option<f64> {
    let mut lines = table.lines();
    let total = lines.find(|line| line.trim_end().ends_with(" total"))?;
    total.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_includes_calls_with_and_without_errors() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
                     90.00    0.000900           9       100         7 futex\n\
                     100.00    0.001000           6       150         7 total\n";
        assert_eq!(calls(table), Some(150.0));
        let without = table.replace("150         7 total", "151           total");
        assert_eq!(calls(&without), Some(151.0));
        assert_eq!(calls("no table"), None);
        assert_eq!(tasks("busy\ntasks 1000\n"), Some(1000.0));
        assert_eq!(tasks("1000 tasks\n"), None);
    }
}
