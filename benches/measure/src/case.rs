//! A case: one question, the pools that can answer it, and the function that measures it.

use std::error::Error;
use std::io::{self, Write as _};
use std::process;
use std::time::Duration;

use serde::Serialize;

use crate::report::Report;

/// The result of a run, or the reason why it could not be made.
pub type Outcome = Result<Report, Box<dyn Error>>;

/// One run, as requested on the command line.
#[derive(Debug, PartialEq)]
pub struct Run {
    pub case: String,
    pub pool: String,
    /// A third of the time, for a first impression.
    pub quick: bool,
    /// Next to one spinning process per core.
    pub oversubscribed: bool,
}

impl Run {
    /// The duration of a measured section: some twenty time slices of the scheduler, and a hundred
    /// times the error of a counter that is read every millisecond.
    pub fn budget(&self) -> Duration {
        Duration::from_millis(if self.quick { 50 } else { 100 })
    }

    /// The number of repetitions of a slow operation: alone, oversubscribed, and in a quick run.
    /// Next to neighbours, each wake-up may wait for a time slice, so it has to be smaller. Figures
    /// are per task.
    pub fn choose(&self, alone: u32, oversubscribed: u32, quick: u32) -> u32 {
        match (self.quick, self.oversubscribed) {
            (true, _) => quick,
            (false, true) => oversubscribed,
            (false, false) => alone,
        }
    }
}

/// A case. Its fields are the columns of `compare list`.
#[derive(Serialize)]
pub struct Case {
    #[serde(rename = "case")]
    pub name: String,
    pub group: &'static str,
    pub question: &'static str,
    pub pools: Vec<&'static str>,
    pub quick: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quick_pools: Vec<&'static str>,
    /// Its pools only sleep, so they may run at the same time.
    pub together: bool,
    #[serde(skip)]
    pub run: Box<dyn Fn(&Run) -> Outcome>,
}

impl Case {
    /// Creates a case of these pools that only the full version runs.
    pub fn new(
        name: String,
        group: &'static str,
        question: &'static str,
        pools: &[&'static str],
        run: impl Fn(&Run) -> Outcome + 'static,
    ) -> Self {
        Self {
            name,
            group,
            question,
            pools: pools.to_vec(),
            quick: false,
            quick_pools: Vec::new(),
            together: false,
            run: Box::new(run),
        }
    }

    /// Adds it to the quick version if `when`, with those of `pools` that it has.
    pub fn quick(mut self, when: bool, pools: &[&'static str]) -> Self {
        self.quick = when;
        if when {
            self.quick_pools = pools.to_vec();
            self.quick_pools.retain(|pool| self.pools.contains(pool));
        }
        self
    }

    /// Lets its pools run at the same time.
    pub fn together(mut self) -> Self {
        self.together = true;
        self
    }
}

/// Prints the cases, an object per line.
pub fn list(cases: &[Case]) -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    for case in cases {
        writeln!(out, "{}", serde_json::to_string(case)?)?;
    }
    Ok(out.flush()?)
}

/// Runs one case, and prints its figures.
pub fn run(cases: &[Case], run: &Run) -> Result<(), Box<dyn Error>> {
    let case = cases
        .iter()
        .find(|case| case.name == run.case)
        .ok_or_else(|| format!("there is no case `{}`", run.case))?;
    if !case.pools.contains(&run.pool.as_str()) {
        return Err(format!("`{}` does not support the case `{}`", run.pool, run.case).into());
    }
    let report = (case.run)(run)?;
    let mut out = io::stdout().lock();
    for metric in report.finish() {
        writeln!(out, "{}", serde_json::to_string(&metric)?)?;
    }
    Ok(out.flush()?)
}

const USAGE: &str = "list | run [--quick] CASE POOL";

/// Runs a program with these cases, without oversubscription.
pub fn main(cases: &[Case]) -> ! {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (flags, words): (Vec<&str>, Vec<&str>) = arguments
        .iter()
        .map(String::as_str)
        .partition(|word| word.starts_with("--"));
    let done = match (&words[..], &flags[..]) {
        (["list"], []) => list(cases),
        (["run", case, pool], [] | ["--quick"]) => {
            let asked = Run {
                case: (*case).to_owned(),
                pool: (*pool).to_owned(),
                quick: !flags.is_empty(),
                oversubscribed: false,
            };
            run(cases, &asked)
        }
        _ => Err(format!("usage: {USAGE}").into()),
    };
    if let Err(error) = done {
        eprintln!("{error}");
        process::exit(1);
    }
    // Runtimes of peers are not shut down, because no case measures it.
    process::exit(0);
}
