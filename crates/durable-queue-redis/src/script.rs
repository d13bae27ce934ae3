//! The scripts, and the way of their calls to a node.
//!
//! # Invariants
//! 1. A script's text is the same for all calls of a store; a call's values are arguments.
//! 2. A script that cannot be carried out (no memory, a full disk, a replica) is rejected before it starts,
//!    because its first line declares its requirements.

use std::sync::OnceLock;

use redis::{Connection, RedisResult, Script};

/// A call of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Enqueue,
    Turn,
    Cancel,
    CancelRequests,
    Reset,
    HeldBy,
    Pause,
    Stats,
    List,
    Dead,
    Redrive,
    DeleteDead,
    Fate,
    DeleteDone,
    Limit,
    ListLimits,
}

/// Without flags, a script needs memory. `allow-oom` scripts settle jobs and work without.
const WRITES: &str = "#!lua";
const WRITES_IN_ANY_CASE: &str = "#!lua flags=allow-oom";
const READS: &str = "#!lua flags=no-writes";

const BASE: &str = include_str!("lua/base.lua");
const ANNOUNCE: &str = include_str!("lua/announce.lua");
const JOBS: &str = include_str!("lua/jobs.lua");
const LIMITS: &str = include_str!("lua/limits.lua");
const GROUPS: &str = include_str!("lua/groups.lua");

/// The server's clock, in microseconds.
const CLOCK: &str = "local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
";

/// A test's time, which the client has added to the name of the guard, the last key.
const CLOCK_OF_GUARD: &str = "local function clock()
  return tonumber(string.match(KEYS[#KEYS], '%d+$'))
end
";

const NO_NODE: &str = "local function node()
  return ''
end
";

const NODE: &str = "local function node()
  return ' ' .. redis.call('CLUSTER', 'MYID')
end
";

impl Call {
    const COUNT: usize = Self::ListLimits as usize + 1;

    /// Returns the first line, whether the script announces, and its body.
    fn parts(self) -> (&'static str, bool, &'static str) {
        match self {
            Self::Enqueue => (WRITES, true, include_str!("lua/merge.lua")),
            Self::Turn => (
                WRITES_IN_ANY_CASE,
                true,
                concat!(
                    include_str!("lua/turn.lua"),
                    include_str!("lua/kinds.lua"),
                    include_str!("lua/claim.lua"),
                ),
            ),
            Self::Cancel => (WRITES_IN_ANY_CASE, true, include_str!("lua/cancel.lua")),
            Self::CancelRequests => (
                WRITES_IN_ANY_CASE,
                false,
                include_str!("lua/cancel_requests.lua"),
            ),
            Self::Reset => (WRITES_IN_ANY_CASE, true, include_str!("lua/reset.lua")),
            Self::HeldBy => (READS, false, include_str!("lua/held_by.lua")),
            Self::Pause => (WRITES_IN_ANY_CASE, true, include_str!("lua/pause.lua")),
            Self::Stats => (READS, false, include_str!("lua/stats.lua")),
            Self::List => (READS, false, include_str!("lua/list.lua")),
            Self::Dead => (READS, false, include_str!("lua/dead.lua")),
            Self::Redrive => (WRITES_IN_ANY_CASE, true, include_str!("lua/redrive.lua")),
            Self::DeleteDead => (
                WRITES_IN_ANY_CASE,
                false,
                include_str!("lua/delete_dead.lua"),
            ),
            Self::Fate => (READS, false, include_str!("lua/fate.lua")),
            Self::DeleteDone => (
                WRITES_IN_ANY_CASE,
                false,
                include_str!("lua/delete_done.lua"),
            ),
            Self::Limit => (WRITES_IN_ANY_CASE, true, include_str!("lua/limit.lua")),
            Self::ListLimits => (READS, false, include_str!("lua/list_limits.lua")),
        }
    }

    /// Returns what comes before the functions for jobs, and may end the script.
    fn first_part(self) -> &'static str {
        match self {
            Self::Enqueue => include_str!("lua/enqueue.lua"),
            _ => "",
        }
    }

    /// Returns whether the script may announce, so that its arguments begin with those of `announce.lua`.
    pub(crate) fn announces(self) -> bool {
        self.parts().1
    }

    /// Returns whether the script may need limits. Scripts that make room for waiting jobs announce these.
    fn knows_limits(self) -> bool {
        self.announces() || matches!(self, Self::ListLimits)
    }

    pub(crate) fn need(self) -> Need {
        match self {
            Self::Enqueue => Need::Push,
            Self::Cancel
            | Self::Reset
            | Self::Pause
            | Self::Limit
            | Self::Redrive
            | Self::DeleteDead => Need::Sure,
            Self::Turn | Self::HeldBy | Self::CancelRequests | Self::DeleteDone => Need::Quick,
            Self::Stats | Self::List | Self::ListLimits | Self::Dead | Self::Fate => Need::Nothing,
        }
    }
}

/// Requirements of a call on its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Reads only, so it can be repeated.
    Nothing,
    /// The caller should know whether the call was carried out.
    Sure,
    /// Like `Sure`, and the server must not delete jobs.
    Push,
    /// A call of a pump, which recovers lost turns by itself, and whose leases end if it waits for long.
    Quick,
}

impl Need {
    pub(crate) fn is_sure(self) -> bool {
        matches!(self, Self::Sure | Self::Push)
    }
}

/// Way of a command to a node of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Direct,
    /// A node that does not have the slot yet accepts the next command.
    Asking,
}

impl Way {
    /// Must be called before each command.
    pub(crate) fn prepare(self, connection: &mut Connection) -> RedisResult<()> {
        match self {
            Self::Direct => Ok(()),
            Self::Asking => redis::cmd("ASKING").exec(connection),
        }
    }
}

/// All scripts of a store.
pub(crate) struct Scripts {
    /// Each is made for its first call: a process needs few of them, and the hash of each takes 0.1 ms.
    texts: [OnceLock<Text>; Call::COUNT],
    /// The functions before the common part.
    head: String,
    own_clock: Option<String>,
}

/// A script's text, and its hash for later calls.
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) hash: String,
}

impl Scripts {
    /// `clock`: the key of a test's clock, instead of the server's.
    pub(crate) fn new(clock: Option<String>) -> Self {
        let text = clock.as_ref().map_or(CLOCK.to_owned(), |key| {
            format!("local function clock()\n  return tonumber(redis.call('GET', '{key}'))\nend\n")
        });
        Self::with(clock, [&text, NO_NODE].concat())
    }

    /// Scripts for a cluster.
    pub(crate) fn of_cluster(clock: Option<String>) -> Self {
        // The clock's key may be in another slot.
        let time = match clock {
            Some(_) => CLOCK_OF_GUARD,
            None => CLOCK,
        };
        Self::with(clock, [time, NODE].concat())
    }

    fn with(own_clock: Option<String>, head: String) -> Self {
        Self {
            texts: [const { OnceLock::new() }; Call::COUNT],
            head,
            own_clock,
        }
    }

    pub(crate) fn get(&self, call: Call) -> &Text {
        self.texts[call as usize].get_or_init(|| self.text(call))
    }

    fn text(&self, call: Call) -> Text {
        let (first, announces, body) = call.parts();
        let announce = if announces { ANNOUNCE } else { "" };
        let (limits, groups) = if call.knows_limits() {
            (LIMITS, GROUPS)
        } else {
            ("", "")
        };
        let text = [
            first,
            "\n",
            &self.head,
            BASE,
            announce,
            call.first_part(),
            JOBS,
            limits,
            groups,
            body,
        ]
        .concat();
        let hash = Script::new(&text).get_hash().to_owned();
        Text { text, hash }
    }

    /// Returns whether times are those of a test's clock.
    pub(crate) fn has_own_clock(&self) -> bool {
        self.own_clock.is_some()
    }

    /// Returns the key of a test's clock.
    pub(crate) fn own_clock(&self) -> Option<&str> {
        self.own_clock.as_deref()
    }
}
