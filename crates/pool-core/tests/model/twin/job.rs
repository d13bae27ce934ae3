//! Tasks of a program: each waits at its own gate until the program decides its next step.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::subject::is_asked;

/// The id of a task.
pub(crate) type Id = u32;
/// The value of a task is its id.
pub(crate) type Out = Id;

/// The next step of a task.
pub(crate) enum Verdict {
    Return,
    Panic,
    /// Makes the call and returns to the gate.
    Call(Box<dyn FnOnce() + Send>),
}

/// The record of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) runs: u32,
    pub(crate) drops: u32,
}

#[derive(Clone, Default)]
pub(crate) struct Board(Arc<Shared>);

#[derive(Default)]
struct Shared {
    tasks: Mutex<BTreeMap<Id, Entry>>,
    changed: Condvar,
}

#[derive(Default)]
struct Entry {
    fate: Fate,
    at_gate: bool,
    verdict: Option<Verdict>,
}

/// A task. It runs at most once and is dropped exactly once. The board counts both.
pub(crate) struct Job {
    id: Id,
    board: Board,
}

/// The payload of a deliberate panic. It bypasses the panic hook, which would print a message.
pub(crate) struct Deliberate(pub(crate) Id);

impl Board {
    pub(crate) fn job(&self, id: Id) -> Job {
        let before = self.lock().insert(id, Entry::default());
        assert!(before.is_none(), "each task has an id of its own");
        Job {
            id,
            board: self.clone(),
        }
    }

    /// The tasks that wait at a gate for their next step.
    pub(crate) fn at_gates(&self) -> Vec<Id> {
        let tasks = self.lock();
        tasks
            .iter()
            .filter(|(_, entry)| entry.at_gate)
            .map(|(&id, _)| id)
            .collect()
    }

    pub(crate) fn fate(&self, id: Id) -> Fate {
        self.lock()[&id].fate
    }

    pub(crate) fn tell(&self, id: Id, verdict: Verdict) {
        {
            let mut tasks = self.lock();
            let entry = tasks.get_mut(&id).expect("a task of this program");
            assert!(entry.at_gate, "task {id} is not at its gate");
            entry.at_gate = false;
            entry.verdict = Some(verdict);
        }
        self.0.changed.notify_all();
    }

    /// Ends all present and future tasks, after a program has failed.
    pub(crate) fn end_all(&self) {
        for entry in self.lock().values_mut() {
            entry.verdict.get_or_insert(Verdict::Return);
        }
        self.0.changed.notify_all();
    }

    fn next_verdict(&self, id: Id) -> Verdict {
        let mut tasks = self.lock();
        loop {
            let entry = tasks.get_mut(&id).expect("a task of this program");
            if let Some(verdict) = entry.verdict.take() {
                entry.at_gate = false;
                return verdict;
            }
            entry.at_gate = true;
            let woken = self.0.changed.wait(tasks);
            tasks = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Id, Entry>> {
        // Ignores poisoning, because the failed assertion was already reported.
        self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    /// Runs the task as its program decides. Returns the task's id.
    pub(crate) fn run(self) -> Id {
        if is_asked(self.id) {
            return self.id;
        }
        if let Some(entry) = self.board.lock().get_mut(&self.id) {
            entry.fate.runs += 1;
        }
        loop {
            match self.board.next_verdict(self.id) {
                Verdict::Return => return self.id,
                Verdict::Panic => resume_unwind(Box::new(Deliberate(self.id))),
                Verdict::Call(call) => call(),
            }
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(entry) = self.board.lock().get_mut(&self.id) {
            entry.fate.drops += 1;
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job({})", self.id)
    }
}
