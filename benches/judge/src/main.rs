//! `cargo xtask bench`: comparison of the pool and the queues with alternatives.
//!
//! The programs of `benches` know the cases and the pools, and run one case on one pool. This
//! program decides which case runs when, and evaluates the figures.
//!
//! # Invariants
//! 1. Each run has its own process. No other run takes place at the same time, except on pools
//!    that only sleep.
//! 2. A difference within the noise is reported as such.
//! 3. A pool that fails does not end the comparison. Its cell and the exit code report the
//!    failure.

mod flags;
mod plan;
mod program;
mod report;
mod sites;
mod slopes;
mod statistics;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use xshell::Shell;

use flags::Judge;
use plan::{Case, Choice, Plan, Runs};
use program::{Package, Program, run_all};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const MANIFEST: &str = "benches/Cargo.toml";
const COMPARE: Package = Package {
    name: "compare",
    manifest: MANIFEST,
    folder: "benches",
    limit: Duration::from_secs(40),
};
const FUTURES: Package = Package {
    name: "futures-compare",
    ..COMPARE
};
const STORES: Package = Package {
    name: "stores",
    // Some cases observe a minute, or push a million jobs.
    limit: Duration::from_secs(300),
    ..COMPARE
};
/// A separate workspace: some peers need another `SQLite`, and a program can link only one.
const STORES_PEERS: Package = Package {
    name: "stores-peers",
    manifest: "benches/stores-peers/Cargo.toml",
    folder: "stores-peers",
    ..STORES
};

/// Runs the requested comparison, prints the result, and keeps it in the target directory,
/// `CARGO_TARGET_DIR`.
fn main() -> Result<()> {
    let flags = &Judge::from_env_or_exit();
    let kinds = [flags.stores, flags.slopes, flags.sites, flags.futures];
    ensure!(
        kinds.iter().filter(|it| **it).count() <= 1,
        "--stores, --slopes, --sites and --futures exclude each other"
    );
    ensure!(flags.rounds != Some(0), "--rounds 0 runs nothing");
    let shell = Shell::new()?;
    shell.change_dir(ROOT);
    if flags.smoke {
        return smoke(&shell);
    }
    let origin = report::origin(&shell)?;
    let (text, failures) = if flags.sites {
        (sites::run(&shell, flags)?, 0)
    } else {
        let (plan, runs) = compare(&shell, flags)?;
        ensure!(!plan.entries.is_empty(), "no case has this name");
        let failures = runs.iter().flatten().filter(|it| it.failure.is_some());
        let text = if flags.slopes {
            slopes::table(&plan, &runs)
        } else {
            report::markdown(&plan, &runs)
        };
        (text, failures.count())
    };
    let text = format!("{origin}, {} after\n{text}", report::load());
    println!("\n{text}");
    let kept = format!("{}/report.md", shell.var("CARGO_TARGET_DIR")?);
    fs::write(&kept, &text)?;
    println!("bench: kept in {kept}");
    ensure!(failures == 0, "{failures} runs failed");
    let is_whole = !flags.quick && flags.only.is_empty() && flags.peer.is_empty();
    match (flags.slopes, flags.futures) {
        (true, _) if is_whole => slopes::write(&text),
        (_, true) if is_whole => write_futures(&text),
        _ => Ok(()),
    }
}

fn write_futures(text: &str) -> Result<()> {
    let page = Path::new(ROOT).join("docs/benchmarks/futures.md");
    replace_between(
        &page,
        "<!-- futures:begin -->",
        "<!-- futures:end -->",
        text,
    )
}

/// Compares pools, or durable queues on the installed servers.
fn compare(shell: &Shell, flags: &Judge) -> Result<(Plan, Vec<Vec<Runs>>)> {
    let of_stores = flags.stores || flags.slopes;
    let (packages, rounds): (&[&Package], _) = match (of_stores, flags.slopes || flags.no_peers) {
        (false, _) if flags.futures => (&[&FUTURES], 5),
        (false, _) => (&[&COMPARE], 7),
        (true, false) => (&[&STORES, &STORES_PEERS], 5),
        (true, true) => (&[&STORES], 3),
    };
    let choice = Choice {
        quick: flags.quick,
        alone: flags.alone || of_stores || flags.futures,
        only: flags.only.clone(),
        peers: flags.peer.clone(),
        rounds: flags.rounds.unwrap_or(if flags.quick { 3 } else { rounds }),
    };
    let build = |package: &&Package| Program::build(shell, package, "release");
    let programs = packages.iter().map(build).collect::<Result<Vec<_>>>()?;
    let is_wanted = |case: &Case| !of_stores || slopes::is_slope(case) == flags.slopes;
    measure(programs, &choice, is_wanted)
}

fn measure(
    mut programs: Vec<Program>,
    choice: &Choice,
    is_wanted: impl Fn(&Case) -> bool,
) -> Result<(Plan, Vec<Vec<Runs>>)> {
    let mut cases = Vec::new();
    for program in &mut programs {
        merge(&mut cases, program.list()?);
    }
    cases.retain(&is_wanted);
    let plan = Plan::new(&cases, choice);
    let runs = plan.run(|runs| run_all(&programs, runs));
    Ok((plan, runs))
}

/// Merges the pools of all programs in each case, ours first.
fn merge(cases: &mut Vec<Case>, listed: Vec<Case>) {
    for case in listed {
        let Some(known) = cases.iter_mut().find(|known| known.name == case.name) else {
            cases.push(case);
            continue;
        };
        known.pools.extend(case.pools);
        if let (Some(known), Some(more)) = (&mut known.quick_pools, case.quick_pools) {
            known.extend(more);
        }
    }
}

/// Runs each quick case with our pool and its quick peers, and a call site of each kind, once and
/// unoptimized. The figures mean nothing.
fn smoke(shell: &Shell) -> Result<()> {
    for package in [&COMPARE, &FUTURES, &STORES] {
        let program = Program::build(shell, package, "dev")?;
        let choice = Choice {
            quick: true,
            alone: true,
            rounds: 1,
            ..Choice::default()
        };
        let (_, runs) = measure(vec![program], &choice, |_| true)?;
        let failures = runs.iter().flatten().filter(|it| it.failure.is_some());
        let (failures, all) = (failures.count(), runs.iter().flatten().count());
        ensure!(
            failures == 0,
            "{failures} of {all} runs of {} failed",
            package.name
        );
        println!("bench: {} ran {all} times", package.name);
    }
    sites::smoke(shell)
}

/// Replaces the part of a page between two markers.
fn replace_between(page: &Path, begin: &str, end: &str, text: &str) -> Result<()> {
    let old = fs::read_to_string(page).with_context(|| page.display().to_string())?;
    let parts = old.split_once(begin);
    let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)));
    let (before, after) =
        parts.with_context(|| format!("{} lacks {begin} and {end}", page.display()))?;
    Ok(fs::write(
        page,
        format!("{before}{begin}\n{text}{end}{after}"),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pools_of_all_programs_are_merged_into_one_case() {
        let ours = r#"{"case":"push","group":"P","question":"?","pools":["ours, A","bare B"],"quick_pools":["ours, A"]}"#;
        let theirs = r#"{"case":"push","group":"P","question":"?","pools":["c"],"quick_pools":["c"]}
            {"case":"work","group":"W","question":"?","pools":["c"]}"#;
        let mut all = plan::cases(ours).expect("well-formed");
        merge(&mut all, plan::cases(theirs).expect("well-formed"));
        let names: Vec<&str> = all.iter().map(|case| &*case.name).collect();
        assert_eq!(names, ["push", "work"]);
        assert_eq!(all[0].pools, ["ours, A", "bare B", "c"]);
        let quick = all[0].quick_pools.as_deref();
        assert_eq!(quick.expect("they are said"), ["ours, A", "c"]);
    }

    #[test]
    fn only_the_text_between_the_markers_is_replaced() {
        let page = std::env::temp_dir().join(format!("xtask-page-{}", std::process::id()));
        fs::write(&page, "a\n<b>\nold\n<e>\nz").expect("a file");
        replace_between(&page, "<b>", "<e>", "new\n").expect("there are markers");
        let text = fs::read_to_string(&page).expect("it is there");
        assert!(replace_between(&page, "<no>", "<e>", "").is_err());
        fs::remove_file(&page).expect("it is there");
        assert_eq!(text, "a\n<b>\nnew\n<e>\nz");
    }
}
