//! What the diaries of all processes must agree on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

/// What became of a run in which nothing was wrong.
pub(crate) struct Verdict {
    pushed: usize,
    started: usize,
    again: usize,
    acked: usize,
    stale: usize,
    unknown: usize,
}

impl Verdict {
    /// The store is empty: each job that was pushed has come to an end.
    pub(crate) fn of(folder: &Path) -> Self {
        let mut pushed = BTreeSet::new();
        let mut attempts: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        let mut acked = BTreeMap::new();
        let (mut started, mut stale, mut unknown) = (0, 0, 0);
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|it| it != "diary") {
                continue;
            }
            for line in fs::read_to_string(path).unwrap().lines() {
                let words: Vec<&str> = line.split(' ').collect();
                let id: u64 = words[1].parse().unwrap();
                let attempt = || words[2].parse::<u32>().unwrap();
                match words[0] {
                    "pushed" => assert!(pushed.insert(id), "{line}: an id was given twice"),
                    "started" => {
                        started += 1;
                        assert_eq!(words.len(), 3, "{line}");
                        let is_new = attempts.entry(id).or_default().insert(attempt());
                        assert!(is_new, "{line}: two holders had one attempt");
                    }
                    "acked" => {
                        let before = acked.insert(id, attempt());
                        assert_eq!(before, None, "{line}: it was done twice");
                    }
                    "stale" => stale += 1,
                    "unknown" => unknown += 1,
                    _ => panic!("no diary has `{line}`"),
                }
            }
        }
        for id in &pushed {
            assert!(attempts.contains_key(id), "job {id} was pushed, and lost");
        }
        // A claim that follows takes the lease away: an acknowledgement after it is a stale holder's.
        for (id, attempt) in &acked {
            let last = attempts[id].last();
            assert_eq!(
                last,
                Some(attempt),
                "job {id} was settled by a stale holder"
            );
        }
        Self {
            pushed: pushed.len(),
            started,
            again: started - attempts.len(),
            acked: acked.len(),
            stale,
            unknown,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pushed,
            started,
            again,
            acked,
            stale,
            unknown,
        } = self;
        write!(
            f,
            "{pushed} jobs pushed, {started} starts, {again} of them again, {acked} acknowledged, \
            {stale} stale holders refused, {unknown} answers unknown; none lost, none early, none \
            settled by a stale holder"
        )
    }
}
