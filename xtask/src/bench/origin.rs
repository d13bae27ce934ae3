//! Where figures come from: without it they are worth nothing.

use std::fs;

use anyhow::Result;
use xshell::{Shell, cmd};

use crate::parallel;

/// The machine, what ran on it, and when.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The model of the processor and the number of its cores.
    pub(crate) machine: String,
    pub(crate) kernel: String,
    pub(crate) compiler: String,
    /// Ends with `-dirty` if the tree differs from it.
    pub(crate) commit: String,
    pub(crate) date: String,
    /// How many processes wanted to run in the minute before the first round.
    pub(crate) load_before: String,
    /// The same in the last minute, ours included.
    pub(crate) load_after: String,
}

impl Origin {
    /// To be called before anything is measured.
    pub(crate) fn here(shell: &Shell) -> Result<Self> {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpus
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let model = model.map_or("unknown processor", |(_, model)| model);
        let cores = parallel::cores();
        Ok(Self {
            machine: format!("{model}, {cores} cores"),
            kernel: cmd!(shell, "uname -sr").quiet().read()?,
            compiler: cmd!(shell, "rustc --version").quiet().read()?,
            commit: cmd!(shell, "git describe --always --dirty")
                .quiet()
                .read()?,
            date: cmd!(shell, "date -u")
                .arg("+%Y-%m-%d %H:%M UTC")
                .quiet()
                .read()?,
            load_before: load(),
            load_after: String::new(),
        })
    }

    /// To be called when everything has been measured.
    pub(crate) fn ended(&mut self) {
        self.load_after = load();
    }

    /// All of it, a name and a value each.
    pub(crate) fn lines(&self) -> [(&'static str, String); 6] {
        [
            ("machine", self.machine.clone()),
            ("kernel", self.kernel.clone()),
            ("compiler", self.compiler.clone()),
            ("commit", self.commit.clone()),
            ("date", self.date.clone()),
            (
                "load",
                format!("{} before, {} after", self.load_before, self.load_after),
            ),
        ]
    }

    /// All of it in one line.
    pub(crate) fn line(&self) -> String {
        let [machine, kernel, compiler, commit, date, load] = self.lines().map(|(_, value)| value);
        format!("{machine}; {kernel}; {compiler}; commit {commit}; {date}; load {load}")
    }
}

/// The average over the last minute.
fn load() -> String {
    let loads = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    loads.split(' ').next().unwrap_or("unknown").to_owned()
}
