//! The driver: starts and stops processes of both versions, tells them what to push, and checks their
//! diaries.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::format::{self, Format};
use super::ledger::{Fate, Ledger};
use super::party::{self, MODE, TICK, kind};
use crate::killer;
use crate::place::SERVER;
use crate::worker::{now, pause};

/// Time limit in microseconds. A longer wait is a failure that names the wait.
const LIMIT: i64 = 60_000_000;
/// No such job is due before a later phase asks for it.
const AN_HOUR: u64 = 3_600_000;
/// Keys whose jobs run one at a time, shared by all processes.
const GROUPS: [&str; 3] = ["a", "b", "c"];

/// The two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Old,
    New,
}

/// A process that was started.
struct Process {
    name: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn tell(&mut self, line: &str) {
        let told = writeln!(self.input, "{line}").and_then(|()| self.input.flush());
        told.unwrap_or_else(|error| panic!("{} has ended: {error}", self.name));
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "{} has ended by itself", self.name);
        line.trim_end().to_owned()
    }

    fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.hear()
    }

    /// Waits for its end, after the command to quit.
    fn end(mut self) {
        assert_eq!(self.hear(), "finished", "{}", self.name);
        drop(self.input);
        let ended = self.child.wait().unwrap();
        assert!(ended.success(), "{}: {ended}", self.name);
    }
}

/// The start of a program: it takes jobs, and pushes the repeating job.
fn begin(process: &mut Process) {
    assert_eq!(process.ask("take"), "ok");
    assert_eq!(process.ask("repeat"), "ok");
}

/// A job that is not due until another process resets, cancels or replaces it.
struct Parked {
    label: String,
    id: String,
}

struct Play<'a> {
    old: &'a Path,
    server: Option<&'a str>,
    folder: &'a Path,
    started: usize,
    pushed: u64,
    expected: BTreeMap<String, Fate>,
    /// The label of the last push by queue and id, because a merge replaces it.
    labels: BTreeMap<(&'static str, String), String>,
}

/// Runs the phases. Panics with the faults, if there are any.
pub(crate) fn run(old: &Path, server: Option<&str>) {
    let folder = &killer::folder();
    let mut play = Play {
        old,
        server,
        folder,
        started: 0,
        pushed: 0,
        expected: BTreeMap::new(),
        labels: BTreeMap::new(),
    };
    let formats = play.phases();
    let ledger = Ledger::read(folder);
    let count = |fate: Fate| play.expected.values().filter(|it| **it == fate).count();
    println!(
        "{formats}; {} processes; {} jobs ran once, {} more of ordered groups in their order, {} after a failed attempt, \
        {} after the older version could not decode them, {} after a redrive; {} were cancelled or merged; {} errors of the store",
        play.started,
        count(Fate::Once),
        count(Fate::Serial),
        count(Fate::Again),
        count(Fate::AfterRefusals),
        count(Fate::Redriven),
        count(Fate::Never),
        ledger.errors.len()
    );
    fs::remove_dir_all(folder).unwrap();
}

impl Play<'_> {
    fn phases(&mut self) -> Formats {
        // The older version alone. It leaves jobs in all states: open, running, claimed ahead, waiting for a
        // retry.
        let mut old = self.start(Version::Old);
        let made = self.format();
        begin(&mut old);
        self.batch(&mut old);
        let parked = self.park(&mut old);
        let held = self.hold(&mut old);
        let ahead: Vec<_> = (0..3)
            .map(|_| self.push(&mut old, "ahead", 2_500))
            .collect();
        for id in &ahead {
            // On a slow machine it may be due already.
            self.until("claim ahead of its time", |_| {
                !old.ask(&format!("state jobs {id}")).starts_with("Waiting")
            });
        }
        self.until_each("failed", Fate::Again);

        // This version joins, and upgrades the store in use.
        let mut new = self.start(Version::New);
        let upgraded = self.format();
        let unknown = self.push_unknown(&mut new);
        self.refuse_unknown(&mut old, &unknown);
        begin(&mut new);
        self.run_unknown(&mut new, unknown);
        self.batch(&mut new);
        self.batch(&mut old);
        self.take_up(&mut new, parked);
        self.bury(&mut old, &mut new);
        self.open(&held);
        self.rest();

        // The older version is restarted while handlers of both versions run.
        let held = [self.hold(&mut old), self.hold(&mut new)].concat();
        let parked = self.park(&mut new);
        old.tell("quit");
        self.open(&held);
        old.end();
        let mut old = self.start(Version::Old);
        begin(&mut old);
        self.batch(&mut old);
        self.batch(&mut new);
        self.take_up(&mut old, parked);
        self.bury(&mut new, &mut old);
        self.rest();

        // This version leaves. The older one continues alone, with this version's jobs.
        let parked = self.park(&mut new);
        let unknown = self.push_unknown(&mut new);
        self.batch(&mut new);
        let held = self.hold(&mut new);
        self.until_each("failed", Fate::Again);
        new.tell("quit");
        self.open(&held);
        new.end();
        self.take_up(&mut old, parked);
        self.refuse_unknown(&mut old, &unknown);
        self.batch(&mut old);
        self.rest();

        // The older version alone is restarted.
        let parked = self.park(&mut old);
        self.quit(old);
        let mut old = self.start(Version::Old);
        begin(&mut old);
        self.batch(&mut old);
        self.rest();

        // This version joins again.
        let mut new = self.start(Version::New);
        begin(&mut new);
        self.batch(&mut old);
        self.batch(&mut new);
        self.take_up(&mut new, parked);
        self.rest();
        assert_eq!(
            self.format(),
            upgraded,
            "only the first start of this version changes it"
        );
        // Before the check of `quit`: on a slow machine the pauses after the refusals end, and this version runs the jobs
        // unasked.
        self.run_unknown(&mut new, unknown);
        self.quit(old);
        for (queue, left) in [("jobs", TICK), ("serial", "")] {
            self.until(&format!("end of all jobs but `{left}`"), |_| {
                new.ask(&format!("left {queue}")) == left
            });
            assert_eq!(new.ask(&format!("dead {queue}")), "", "a dead letter");
        }
        self.quit(new);
        self.check("all have ended");
        Formats { made, upgraded }
    }

    fn format(&self) -> Format {
        format::read(self.server, self.folder)
    }

    fn start(&mut self, version: Version) -> Process {
        self.started += 1;
        let name = format!("{version:?}-{}", self.started);
        let (program, knows_new) = match version {
            Version::Old => (self.old.to_owned(), "false"),
            Version::New => (std::env::current_exe().unwrap(), "true"),
        };
        let mut child = Command::new(&program)
            .arg(MODE)
            .arg(self.folder)
            .args([&name, knows_new])
            .envs(self.server.map(|server| (SERVER, server)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut process = Process {
            name,
            child,
            input,
            output: BufReader::new(output),
        };
        assert_eq!(process.hear(), "open", "{}", process.name);
        process
    }

    fn quit(&self, mut process: Process) {
        process.tell("quit");
        process.end();
        self.check("a process has quit");
    }

    fn push(&mut self, by: &mut Process, kind: &str, delay: u64) -> String {
        self.push_to(by, "jobs", kind, delay, "-", "-").1
    }

    /// Returns the answer's first word, and the job's id.
    fn push_to(
        &mut self,
        by: &mut Process,
        queue: &'static str,
        kind_and_key: &str,
        delay: u64,
        urgency: &str,
        key: &str,
    ) -> (String, String) {
        self.pushed += 1;
        let label = format!("{kind_and_key}-{}", self.pushed);
        let answer = by.ask(&format!("push {queue} {delay} {urgency} {key} {label}"));
        let (put, id) = answer.split_once(' ').unwrap();
        let fate = match kind(&label) {
            _ if delay == AN_HOUR => Fate::Parked,
            "retry" => Fate::Again,
            "serial" | "stumble" => Fate::Serial,
            "bury" => Fate::Redriven,
            _ => Fate::Once,
        };
        self.expected.insert(label.clone(), fate);
        let before = self.labels.insert((queue, id.to_owned()), label);
        assert_eq!(before.is_some(), put == "merged", "{answer}");
        if let Some(before) = before {
            self.expected.insert(before, Fate::Never);
        }
        (put.to_owned(), id.to_owned())
    }

    /// Jobs of all kinds that need no further commands.
    fn batch(&mut self, by: &mut Process) {
        for number in 0..3 {
            self.push(by, "plain", 0);
            self.push(by, "delayed", 100 + 300 * number);
            self.push_to(by, "jobs", "urgent", 150 * number, "urgent", "-");
        }
        self.push(by, "retry", 0);
        self.push(by, "retry", 0);
        for round in 0..3 {
            for group in GROUPS {
                let kind = if round == 1 { "stumble" } else { "serial" };
                self.push_to(by, "serial", &format!("{kind}.{group}"), 0, "-", group);
            }
        }
    }

    /// Two jobs whose handlers run until the driver opens their gates.
    fn hold(&mut self, by: &mut Process) -> Vec<String> {
        let held: Vec<String> = (0..2)
            .map(|_| {
                let id = self.push(by, "hold", 0);
                self.labels[&("jobs", id)].clone()
            })
            .collect();
        for label in &held {
            self.until("start", |ledger| ledger.has(label, "started"));
        }
        held
    }

    fn open(&self, held: &[String]) {
        for label in held {
            fs::write(party::gate(self.folder, label), "").unwrap();
        }
    }

    /// Jobs of a variant that the older version cannot decode, due in an hour.
    fn push_unknown(&mut self, by: &mut Process) -> Vec<Parked> {
        let jobs = (0..3).map(|_| self.park_one(by, "new", "-", "-"));
        jobs.collect()
    }

    /// Makes the jobs due while only `old` takes jobs, and waits until it has given each back, because it cannot decode it.
    fn refuse_unknown(&self, old: &mut Process, jobs: &[Parked]) {
        for Parked { label, id } in jobs {
            assert_eq!(old.ask(&format!("reset jobs {id}")), "moved", "{label}");
            self.until("refusal", |_| {
                let state = old.ask(&format!("state jobs {id}"));
                state.starts_with("Waiting ") && state != "Waiting 0"
            });
        }
    }

    /// Runs the jobs in a process that can decode them. Resets them meanwhile: a process of the older version may take
    /// the job again, and give it back for a minute.
    fn run_unknown(&mut self, new: &mut Process, jobs: Vec<Parked>) {
        for Parked { label, id } in jobs {
            self.until(&format!("end of {label}"), |ledger| {
                new.ask(&format!("reset jobs {id}"));
                ledger.has(&label, "ended")
            });
            self.expected.insert(label, Fate::AfterRefusals);
        }
    }

    /// A job that its handler buries and another process redrives.
    fn bury(&mut self, by: &mut Process, redriver: &mut Process) {
        let id = self.push(by, "bury", 0);
        self.until("dead letter", |_| redriver.ask("dead jobs") == id);
        let label = self.labels[&("jobs", id.clone())].clone();
        self.open(&[label]);
        assert_eq!(redriver.ask(&format!("redrive jobs {id}")), "1");
    }

    /// Jobs that are due in an hour, one of them urgent; one of them has a key.
    fn park(&mut self, by: &mut Process) -> Vec<Parked> {
        let kinds = [
            ("later", "-", "-"),
            ("later", "urgent", "-"),
            ("doomed", "-", "-"),
            ("merged", "-", "key"),
        ];
        let parked = kinds.map(|(kind, urgency, key)| self.park_one(by, kind, urgency, key));
        parked.into()
    }

    fn park_one(&mut self, by: &mut Process, kind: &str, urgency: &str, key: &str) -> Parked {
        let (_, id) = self.push_to(by, "jobs", kind, AN_HOUR, urgency, key);
        let label = self.labels[&("jobs", id.clone())].clone();
        Parked { label, id }
    }

    /// Resets, cancels and replaces jobs that another process has parked.
    fn take_up(&mut self, by: &mut Process, parked: Vec<Parked>) {
        for Parked { label, id } in parked {
            match kind(&label) {
                "later" => {
                    assert_eq!(by.ask(&format!("reset jobs {id}")), "moved", "{label}");
                    self.expected.insert(label, Fate::Once);
                }
                "doomed" => {
                    assert_eq!(by.ask(&format!("cancel jobs {id}")), "gone", "{label}");
                    self.expected.insert(label, Fate::Never);
                }
                _ => {
                    let put = self.push_to(by, "jobs", "merged", 0, "-", "key");
                    assert_eq!(put, ("merged".to_owned(), id), "{label}");
                }
            }
        }
    }

    /// Waits until each job that may run has ended, and a tick has run in the meantime.
    fn rest(&self) {
        let begin = now();
        for (label, fate) in &self.expected {
            if !matches!(fate, Fate::Never | Fate::Parked) {
                self.until(&format!("end of {label}"), |ledger| {
                    ledger.has(label, "ended")
                });
            }
        }
        self.until("tick", |ledger| ledger.has_tick_after(begin));
    }

    /// Waits until each job with this fate has this event.
    fn until_each(&self, event: &str, fate: Fate) {
        for label in self
            .expected
            .iter()
            .filter(|(_, it)| **it == fate)
            .map(|(label, _)| label)
        {
            self.until(&format!("`{event}` of {label}"), |ledger| {
                ledger.has(label, event)
            });
        }
    }

    fn until(&self, what: &str, mut is_so: impl FnMut(&Ledger) -> bool) {
        let begin = now();
        loop {
            let ledger = Ledger::read(self.folder);
            if is_so(&ledger) {
                return;
            }
            assert!(
                now() - begin < LIMIT,
                "no {what}; errors of the store: {:#?}",
                ledger.errors
            );
            pause(10);
        }
    }

    fn check(&self, when: &str) {
        let faults = Ledger::read(self.folder).faults(&self.expected);
        assert!(faults.is_empty(), "{when}: {faults:#?}");
    }
}

/// The store's format before and after the first start of this version.
struct Formats {
    made: Format,
    upgraded: Format,
}

impl fmt::Display for Formats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { made, upgraded } = self;
        if made == upgraded {
            return write!(f, "version {} of the store in both programs", made.version);
        }
        write!(
            f,
            "version {} of the store upgraded to {}, on which {} may work",
            made.version, upgraded.version, upgraded.oldest
        )
    }
}
