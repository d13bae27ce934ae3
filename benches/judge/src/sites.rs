//! `--sites`: the cost of compiling a call site, compared with the peers.
//!
//! A pool's calls are generic over the closure, so each call site is compiled separately. The
//! program `benches/sites` has one site, or 200 more with its feature `many`, each with a closure
//! of its own. Their cost is the difference of two builds of that crate, so it excludes the start
//! of cargo and the linking of shared code.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use xshell::{Shell, cmd};

use crate::flags::Judge;
use crate::{MANIFEST, report};

/// In addition to the first.
const SITES: u32 = 200;
const SOURCE: &str = "benches/sites/src/main.rs";
/// Features of the program, and the calls that they select.
const KINDS: [(&str, &str); 7] = [
    ("plain", "the closure called in place"),
    ("submit", "anthill `submit`"),
    ("threadpool", "threadpool `execute`"),
    ("rayon", "rayon `spawn`"),
    (
        "tokio-detached",
        "tokio `spawn_blocking`, its handle dropped",
    ),
    ("spawn", "anthill `spawn`, joined"),
    ("tokio-joined", "tokio `spawn_blocking`, joined"),
];

/// Measures all kinds in both profiles.
pub fn run(shell: &Shell, flags: &Judge) -> Result<String> {
    let rounds = flags.rounds.unwrap_or(if flags.quick { 1 } else { 3 });
    let head = [
        "call",
        "dev: processor time",
        "dev: code",
        "release: processor time",
        "release: code",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (kind, label) in KINDS {
        let mut row = vec![label.to_owned()];
        for profile in ["dev", "release"] {
            let [few, many] = [false, true].map(|many| checked(shell, kind, many, profile));
            let code = many?.saturating_sub(few?) / u64::from(SITES);
            let mut times = Vec::new();
            for _ in 0..rounds {
                let few = rebuilt(shell, kind, false, profile)?;
                times.push(rebuilt(shell, kind, true, profile)?.saturating_sub(few));
            }
            row.extend([of_each(times), format!("{code} bytes")]);
        }
        rows.push(row);
    }
    Ok(format!(
        "\nCost of a call site: what each of {SITES} further ones adds to the build of its crate. Median of {rounds} \
         rounds (least - most).\n\n{}",
        report::table(&rows)
    ))
}

/// Builds and runs each kind once.
pub fn smoke(shell: &Shell) -> Result<()> {
    for (kind, _) in KINDS {
        checked(shell, kind, false, "dev")?;
    }
    Ok(())
}

fn build(shell: &Shell, kind: &str, many: bool, profile: &str) -> Result<()> {
    let features = if many {
        format!("{kind},many")
    } else {
        kind.to_owned()
    };
    let _incremental = shell.push_env("CARGO_INCREMENTAL", "0");
    let build = cmd!(
        shell,
        "cargo build --quiet --manifest-path {MANIFEST} --package sites --features {features} --profile {profile}"
    );
    Ok(build.quiet().run()?)
}

/// Builds the program with its dependencies, checks that each site runs, and returns the size of
/// its code.
fn checked(shell: &Shell, kind: &str, many: bool, profile: &str) -> Result<u64> {
    build(shell, kind, many, profile)?;
    let target = shell.var("CARGO_TARGET_DIR")?;
    let folder = if profile == "dev" { "debug" } else { profile };
    let program = format!("{target}/{folder}/sites");
    let told = cmd!(shell, "{program}").quiet().read()?;
    let sites = if many { 1 + SITES } else { 1 };
    ensure!(
        told == sites.to_string(),
        "{told} of {sites} sites of {kind} have run"
    );
    size(shell, Path::new(&program))
}

/// The size of a program's code and constants.
fn size(shell: &Shell, program: &Path) -> Result<u64> {
    let table = cmd!(shell, "size {program}").quiet().read()?;
    let text = table
        .lines()
        .nth(1)
        .and_then(|line| line.split_whitespace().next()?.parse().ok());
    text.context("`size` of binutils has changed")
}

/// The processor time of a build of this crate alone.
fn rebuilt(shell: &Shell, kind: &str, many: bool, profile: &str) -> Result<Duration> {
    let source = shell.current_dir().join(SOURCE);
    let text = fs::read(&source)?;
    fs::write(&source, text)?; // Changes the modification time, by which cargo decides to rebuild.
    let before = processor_time_of_children()?;
    build(shell, kind, many, profile)?;
    Ok(processor_time_of_children()?.saturating_sub(before))
}

/// The processor time of all waited-for descendants: fields 16 and 17, `cutime` and `cstime`, in
/// hundredths of a second.
fn processor_time_of_children() -> Result<Duration> {
    let stat =
        fs::read_to_string("/proc/self/stat").context("processor time is read from procfs")?;
    // The second field is a name in parentheses, of any characters.
    let fields = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let ticks = fields
        .skip(13)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<Result<u64, _>>();
    Ok(Duration::from_millis(10 * ticks?))
}

fn of_each(times: Vec<Duration>) -> String {
    let times = times.into_iter();
    let mut times: Vec<_> = times
        .map(|time| time.as_secs_f64() * 1e3 / f64::from(SITES))
        .collect();
    times.sort_by(f64::total_cmp);
    let (least, most) = (times[0], times[times.len() - 1]);
    format!("{:.2} ms ({least:.2} - {most:.2})", times[times.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_shown_for_each_site_as_the_median_and_the_extremes() {
        let times = [300, 100, 500].map(Duration::from_millis);
        assert_eq!(of_each(times.to_vec()), "1.50 ms (0.50 - 2.50)");
    }
}
