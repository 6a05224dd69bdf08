//! A round's plan, drawn from its seed.

use std::time::Duration;

use nix::errno::Errno;
use rand::rngs::StdRng;
use rand::RngExt;

use crate::preload::{Action, Call, Fault, Kind};

/// A server's end after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// None: it goes on.
    GoOn,
    /// By SIGTERM, without load.
    ShutDown,
    /// By SIGTERM, under load.
    ShutDownUnderLoad,
    /// By SIGKILL, without load.
    Kill,
    /// By SIGKILL, under load.
    KillUnderLoad,
}

impl End {
    pub(super) fn name(self) -> &'static str {
        match self {
            End::GoOn => "went on",
            End::ShutDown => "shut down",
            End::ShutDownUnderLoad => "shut down under load",
            End::Kill => "killed",
            End::KillUnderLoad => "killed under load",
        }
    }

    /// True if clients work until the server is gone.
    pub(super) fn is_under_load(self) -> bool {
        matches!(self, End::ShutDownUnderLoad | End::KillUnderLoad)
    }
}

/// A round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) fault: Fault,
    /// Longest time under load.
    pub(super) load: Duration,
    /// Time under load after the fault.
    pub(super) after: Duration,
    pub(super) end: End,
    /// A fault of the first start after it.
    pub(super) at_start: Option<Fault>,
}

/// Kinds of calls with faults under load, with the most calls before one, and how often each is drawn. A new
/// file of the binary log is not among them: the server then turns its log off, and does not start after a
/// kill.
const UNDER_LOAD: [(Kind, Call, u64, u32); 26] = [
    (Kind::Log, Call::Write, 200, 6),
    (Kind::Log, Call::Sync, 200, 6),
    (Kind::Log, Call::Create, 2, 1),
    (Kind::Log, Call::Allocate, 2, 2),
    (Kind::Log, Call::Open, 2, 1),
    (Kind::Log, Call::Unlink, 2, 1),
    (Kind::Table, Call::Create, 4, 2),
    (Kind::Table, Call::Write, 30, 4),
    (Kind::Table, Call::Sync, 4, 3),
    (Kind::Table, Call::Read, 60, 2),
    (Kind::Table, Call::Open, 6, 1),
    (Kind::Table, Call::Close, 6, 1),
    (Kind::Table, Call::Unlink, 4, 1),
    (Kind::Table, Call::Link, 3, 1),
    (Kind::Manifest, Call::Write, 6, 3),
    (Kind::Manifest, Call::Sync, 6, 3),
    (Kind::Manifest, Call::Allocate, 1, 1),
    (Kind::Directory, Call::Sync, 4, 3),
    (Kind::Directory, Call::Open, 4, 1),
    (Kind::Binlog, Call::Write, 150, 3),
    (Kind::Binlog, Call::Sync, 150, 3),
    (Kind::Redo, Call::Write, 150, 2),
    (Kind::Redo, Call::Sync, 100, 2),
    (Kind::InnoDb, Call::Write, 10, 2),
    (Kind::InnoDb, Call::Sync, 6, 2),
    (Kind::InnoDb, Call::Read, 3, 1),
];

/// The same for a start.
const AT_START: [(Kind, Call, u64, u32); 17] = [
    (Kind::Log, Call::Open, 3, 2),
    (Kind::Log, Call::Read, 8, 3),
    (Kind::Log, Call::Write, 3, 3),
    (Kind::Log, Call::Sync, 3, 3),
    (Kind::Log, Call::Create, 1, 1),
    (Kind::Table, Call::Create, 2, 2),
    (Kind::Table, Call::Write, 4, 2),
    (Kind::Table, Call::Sync, 2, 2),
    (Kind::Table, Call::Read, 6, 2),
    (Kind::Table, Call::Open, 3, 1),
    (Kind::Manifest, Call::Open, 2, 1),
    (Kind::Manifest, Call::Read, 3, 2),
    (Kind::Manifest, Call::Write, 4, 3),
    (Kind::Manifest, Call::Sync, 4, 3),
    (Kind::Manifest, Call::Create, 2, 1),
    (Kind::Manifest, Call::Rename, 1, 1),
    (Kind::Directory, Call::Sync, 4, 3),
];

/// Calls to be seen in every run: else the library misses some, and the check breaks less than it claims.
pub(super) const SEEN: [(Kind, Call); 25] = [
    (Kind::Log, Call::Open),
    (Kind::Log, Call::Create),
    (Kind::Log, Call::Read),
    (Kind::Log, Call::Write),
    (Kind::Log, Call::Sync),
    (Kind::Log, Call::Allocate),
    (Kind::Table, Call::Open),
    (Kind::Table, Call::Create),
    (Kind::Table, Call::Read),
    (Kind::Table, Call::Write),
    (Kind::Table, Call::Sync),
    (Kind::Table, Call::Unlink),
    (Kind::Manifest, Call::Create),
    (Kind::Manifest, Call::Read),
    (Kind::Manifest, Call::Write),
    (Kind::Manifest, Call::Sync),
    (Kind::Manifest, Call::Rename),
    (Kind::Directory, Call::Sync),
    (Kind::Binlog, Call::Write),
    (Kind::Binlog, Call::Sync),
    (Kind::Redo, Call::Write),
    (Kind::Redo, Call::Sync),
    (Kind::InnoDb, Call::Read),
    (Kind::InnoDb, Call::Write),
    (Kind::InnoDb, Call::Sync),
];

impl Plan {
    pub(super) fn draw(binary_log: bool, random: &mut StdRng) -> Plan {
        let fault = draw_fault(&UNDER_LOAD, binary_log, random);
        let end = match random.random_range(0..10) {
            0 | 1 => End::GoOn,
            2 | 3 => End::ShutDown,
            4 | 5 => End::ShutDownUnderLoad,
            6 | 7 => End::Kill,
            _ => End::KillUnderLoad,
        };
        Plan {
            fault,
            load: Duration::from_millis(random.random_range(600..1600)),
            after: Duration::from_millis(random.random_range(0..400)),
            end,
            at_start: random.random_bool(0.25).then(|| draw_fault(&AT_START, binary_log, random)),
        }
    }
}

/// A fault of a file of the store under load, for a server with a later power cut: no sync lies.
pub(in crate::check) fn of_store(random: &mut StdRng) -> Fault {
    loop {
        let fault = draw_fault(&UNDER_LOAD, false, random);
        if fault.kind.is_store() && fault.action != Action::Lie {
            return fault;
        }
    }
}

fn draw_fault(calls: &[(Kind, Call, u64, u32)], binary_log: bool, random: &mut StdRng) -> Fault {
    let possible = || calls.iter().filter(|(kind, ..)| binary_log || *kind != Kind::Binlog);
    let mut ticket = random.random_range(0..possible().map(|(.., weight)| weight).sum());
    let mut drawn = (Kind::Log, Call::Write, 1);
    for (kind, call, most, weight) in possible() {
        drawn = (*kind, *call, *most);
        if ticket < *weight {
            break;
        }
        ticket -= weight;
    }
    let (kind, call, most) = drawn;
    let times = match random.random_range(0..10) {
        0..7 => 1,
        7 => random.random_range(2..6),
        _ => u64::MAX,
    };
    Fault {
        kind,
        call,
        first: random.random_range(1..=most),
        times,
        action: draw_action(kind, call, times, random),
    }
}

fn draw_action(kind: Kind, call: Call, times: u64, random: &mut StdRng) -> Action {
    let delay = |random: &mut StdRng| {
        let millis = if times == 1 { 100..1200 } else { 1..8 };
        Action::Delay(Duration::from_millis(random.random_range(millis)))
    };
    let dice = random.random_range(0..10);
    let action = match call {
        Call::Write => match dice {
            0..3 => Action::Fail(Errno::EIO),
            3 | 4 => Action::Fail(Errno::ENOSPC),
            5 => Action::Fail(Errno::EDQUOT),
            6 => Action::Tear(Errno::EIO),
            7 => Action::Tear(Errno::ENOSPC),
            8 => Action::Short,
            _ => delay(random),
        },
        Call::Sync => match dice {
            0..5 => Action::Fail(Errno::EIO),
            5 => Action::Fail(Errno::ENOSPC),
            6 => Action::Fail(Errno::EDQUOT),
            7 => Action::Lie,
            _ => delay(random),
        },
        Call::Read => match dice {
            0..6 => Action::Fail(Errno::EIO),
            6..8 => Action::Short,
            _ => delay(random),
        },
        _ => match dice {
            0..4 => Action::Fail(Errno::EIO),
            4..7 => Action::Fail(Errno::ENOSPC),
            7 => Action::Fail(Errno::EDQUOT),
            _ => delay(random),
        },
    };
    // A failure may meet a rotation: the server then turns its binary log off, and does not start after a kill.
    match kind == Kind::Binlog && action.fails() {
        true => delay(random),
        false => action,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_fault_and_every_end_is_drawn_and_a_seed_repeats_it() {
        let plan = |seed, log| Plan::draw(log, &mut StdRng::seed_from_u64(seed));
        let plans: Vec<Plan> = (0..2000).map(|seed| plan(seed, true)).collect();
        let drawn: BTreeSet<(Kind, Call)> = plans.iter().map(|p| (p.fault.kind, p.fault.call)).collect();
        assert_eq!(drawn.len(), UNDER_LOAD.len());
        let at_start: BTreeSet<(Kind, Call)> =
            plans.iter().filter_map(|p| p.at_start).map(|fault| (fault.kind, fault.call)).collect();
        assert_eq!(at_start.len(), AT_START.len());
        let ends: BTreeSet<&str> = plans.iter().map(|p| p.end.name()).collect();
        assert_eq!(ends.len(), 5);
        assert!(plans
            .iter()
            .all(|p| p.fault.kind != Kind::Binlog || p.fault.action != Action::Fail(Errno::ENOSPC)));
        assert!((0..2000).all(|seed| plan(seed, false).fault.kind != Kind::Binlog));
        assert_eq!(format!("{:?}", plan(7, true)), format!("{:?}", plan(7, true)));
    }
}
