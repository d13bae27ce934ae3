//! The diaries of all processes, and their checks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::party::{TICK, kind};

const SECOND: i64 = 1_000_000;

/// The expected course of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// One successful attempt.
    Once,
    /// A failed attempt, then a successful one.
    Again,
    /// Given back by processes that cannot decode the payload, then one successful attempt, the first.
    AfterRefusals,
    /// A successful attempt after any number of failed ones: a push may be merged into a job that has failed.
    Serial,
    /// A first attempt that buries the job; after the redrive another first attempt, which succeeds.
    Redriven,
    /// No attempt: the job is cancelled, or merged into another one, before it can be due.
    Never,
    /// Like [`Once`](Self::Once), but the job is not due until a later phase changes its time.
    Parked,
}

/// A diary entry of a handler.
#[derive(Clone, Debug)]
struct Entry {
    event: String,
    attempt: u32,
    due: i64,
    time: i64,
}

/// All entries so far, by label, in order of time.
#[derive(Debug)]
pub(super) struct Ledger {
    entries: BTreeMap<String, Vec<Entry>>,
    /// Distinct errors of the store, by process.
    pub(super) errors: BTreeSet<String>,
}

impl Ledger {
    pub(super) fn read(folder: &Path) -> Self {
        let mut entries: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        let mut errors = BTreeSet::new();
        for file in fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|it| it != "diary") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            // A line in progress has no end yet.
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            for line in whole.lines() {
                let words: Vec<&str> = line.split(' ').collect();
                let [event, label, attempt, due, time] = words[..] else {
                    errors.insert(format!("{}: {line}", path.file_stem().unwrap().display()));
                    continue;
                };
                entries.entry(label.to_owned()).or_default().push(Entry {
                    event: event.to_owned(),
                    attempt: attempt.parse().unwrap(),
                    due: due.parse().unwrap(),
                    time: time.parse().unwrap(),
                });
            }
        }
        for entries in entries.values_mut() {
            entries.sort_by_key(|entry| entry.time);
        }
        Self { entries, errors }
    }

    fn of(&self, label: &str) -> &[Entry] {
        self.entries.get(label).map_or(&[], Vec::as_slice)
    }

    pub(super) fn has(&self, label: &str, event: &str) -> bool {
        self.of(label).iter().any(|entry| entry.event == event)
    }

    /// Returns whether a tick due after `time` has run.
    pub(super) fn has_tick_after(&self, time: i64) -> bool {
        let mut ticks = self.of(TICK).iter();
        ticks.any(|entry| entry.event == "ended" && entry.due > time)
    }

    fn count(&self, label: &str, event: &str) -> usize {
        let entries = self.of(label).iter();
        entries.filter(|entry| entry.event == event).count()
    }

    /// Returns a line for each job that differs from its expected course.
    pub(super) fn faults(&self, expected: &BTreeMap<String, Fate>) -> Vec<String> {
        let mut faults: Vec<String> = expected
            .iter()
            .filter_map(|(label, fate)| self.fault(label, *fate))
            .collect();
        for label in self.entries.keys() {
            if label != TICK && !expected.contains_key(label) {
                faults.push(format!("{label} ran and was never pushed"));
            }
            if self.has(label, "unsettled") {
                faults.push(format!(
                    "{label}: its handler had lost its lease, or got no answer"
                ));
            }
        }
        faults.extend(self.faults_of_ticks());
        faults.extend(self.faults_of_groups());
        faults
    }

    fn fault(&self, label: &str, fate: Fate) -> Option<String> {
        let counts = ["started", "failed", "ended"].map(|event| self.count(label, event));
        let attempts: Vec<u32> = self
            .of(label)
            .iter()
            .filter(|entry| entry.event == "started")
            .map(|entry| entry.attempt)
            .collect();
        let is_good = match fate {
            Fate::Once | Fate::AfterRefusals => counts == [1, 0, 1] && attempts == [1],
            Fate::Again => counts == [2, 1, 1] && attempts == [1, 2],
            Fate::Serial => counts[2] == 1 && counts[0] == 1 + counts[1],
            Fate::Redriven => counts == [2, 1, 1] && attempts == [1, 1],
            // It may have failed before it was merged.
            Fate::Never => counts[2] == 0,
            Fate::Parked => counts == [0; 3],
        };
        let [started, failed, ended] = counts;
        (!is_good).then(|| {
            format!(
                "{label}, expected {fate:?}: started {started} times, by attempts {attempts:?}; failed {failed} times; ended {ended} times"
            )
        })
    }

    /// Each tick runs once, and none is skipped if the previous one has ended in time.
    ///
    /// Exception: the older version's `push_repeating` may insert a tick again that has fallen due and run
    /// between its two calls of the store.
    fn faults_of_ticks(&self) -> Vec<String> {
        let times = |event| {
            let entries = self.of(TICK).iter();
            entries
                .filter(move |entry| entry.event == event)
                .map(|entry| entry.time)
        };
        // The driver lets one process push at a time.
        let pushes: Vec<(i64, i64)> = times("pushing").zip(times("pushed")).collect();
        let may_be_pushed_again = |due| {
            pushes
                .iter()
                .any(|(begin, end)| (begin..=end).contains(&&due))
        };
        let mut faults = Vec::new();
        let mut seen = BTreeSet::new();
        // Time of the last acknowledgement: the next tick is at most the first one after it.
        let mut acknowledged: Option<i64> = None;
        for entry in self.of(TICK) {
            match &*entry.event {
                "started" => {
                    let due = entry.due;
                    if !seen.insert(due) && !may_be_pushed_again(due) {
                        faults.push(format!("the tick of {due} was handed out twice"));
                    }
                    let latest = acknowledged
                        .take()
                        .map(|time| time - time % SECOND + SECOND);
                    if latest.is_some_and(|latest| due > latest) {
                        faults.push(format!("a tick was left out before that of {due}"));
                    }
                }
                "settled" => acknowledged = Some(entry.time),
                _ => (),
            }
        }
        faults
    }

    /// Of each ordered group one job runs at a time, in the order of the pushes.
    fn faults_of_groups(&self) -> Vec<String> {
        let mut groups: BTreeMap<&str, Vec<(i64, &Entry, &str)>> = BTreeMap::new();
        for (label, entries) in &self.entries {
            if !["serial", "stumble"].contains(&kind(label)) {
                continue;
            }
            let (name, number) = label.rsplit_once('-').unwrap();
            let (_, group) = name.split_once('.').unwrap();
            let number: i64 = number.parse().unwrap();
            let entries = entries.iter().map(|entry| (number, entry, &**label));
            groups.entry(group).or_default().extend(entries);
        }
        let mut faults = Vec::new();
        for (group, mut entries) in groups {
            entries.sort_by_key(|(_, entry, _)| entry.time);
            let (mut running, mut last) = (None, 0);
            for (number, entry, label) in entries {
                match (&*entry.event, running) {
                    ("started", None) => {
                        running = Some(label);
                        if number < last {
                            faults.push(format!("{label} of group {group} ran after a later one"));
                        }
                        last = number;
                    }
                    ("started", Some(other)) => {
                        faults.push(format!("{label} of group {group} began while {other} ran"));
                    }
                    _ => running = None,
                }
            }
        }
        faults
    }
}
