//! Lock modes as sets of bits, with their conflicts and coverage. Pure; every decision of the lock table
//! about two owners ends here.

use std::fmt;

/// Mode of a lock on one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Others may share the key; none may write it.
    Shared,
    /// No other owner has the key.
    Exclusive,
}

/// Mode of a lock on a whole table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableMode {
    /// The owner takes shared locks on keys below.
    IntentShared,
    /// The owner takes exclusive locks on keys below.
    IntentExclusive,
    /// No other owner writes in the table.
    Shared,
    /// No other owner locks anything in the table.
    Exclusive,
}

/// A set of modes of one owner, held or wanted, on one key or table. SIX is `IX | S`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mask(u8);

impl Mask {
    pub(super) const NONE: Mask = Mask(0);
    pub(super) const IS: Mask = Mask(1);
    pub(super) const IX: Mask = Mask(2);
    pub(super) const S: Mask = Mask(4);
    pub(super) const X: Mask = Mask(8);
    /// Wanted only, never held: before its publication, a gap lock lets the exclusive locks wanted here pass
    /// first, in the order of the queue.
    pub(super) const AFTER: Mask = Mask(16);
    /// Wanted only, never held: a published gap lock waits for the exclusive lock granted here. It does not
    /// wait for wanted ones, because it blocks those itself.
    pub(super) const GAP: Mask = Mask(32);

    /// All modes that can be held.
    pub(super) const ANY: Mask = Mask(15);

    /// Number of modes that can be held.
    pub(super) const BITS: usize = 4;

    /// The table mode required by this mode on a key.
    pub(super) fn intention(self) -> Mask {
        if self == Mask::S {
            Mask::IS
        } else {
            Mask::IX
        }
    }

    /// True if a wait for this mode ends without a grant.
    pub(super) const fn is_passing(self) -> bool {
        self.meets(Mask::AFTER.with(Mask::GAP))
    }

    #[cfg(test)]
    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The usual name of the strongest mode in the set.
    pub(super) const fn name(self) -> &'static str {
        if self.is_passing() {
            "GAP"
        } else if self.meets(Mask::X) {
            "X"
        } else if self.meets(Mask::S) && self.meets(Mask::IX) {
            "SIX"
        } else if self.meets(Mask::S) {
            "S"
        } else if self.meets(Mask::IX) {
            "IX"
        } else if self.meets(Mask::IS) {
            "IS"
        } else {
            "-"
        }
    }

    #[must_use]
    pub(super) const fn with(self, other: Mask) -> Mask {
        Mask(self.0 | other.0)
    }

    #[must_use]
    pub(super) const fn without(self, other: Mask) -> Mask {
        Mask(self.0 & !other.0)
    }

    pub(super) const fn meets(self, other: Mask) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) const fn has_bit(self, bit: usize) -> bool {
        self.0 & (1 << bit) != 0
    }

    /// The modes forbidden to other owners while this set is held. `GAP` forbids none.
    pub(super) const fn conflicts(self) -> Mask {
        let mut out = 0;
        if self.meets(Mask::IS) {
            out |= Mask::X.0;
        }
        if self.meets(Mask::IX) {
            out |= Mask::S.0 | Mask::X.0;
        }
        if self.meets(Mask::S) {
            out |= Mask::IX.0 | Mask::X.0;
        }
        if self.meets(Mask::X) {
            out |= Mask::IS.0 | Mask::IX.0 | Mask::S.0 | Mask::X.0 | Mask::AFTER.0;
        }
        if self.meets(Mask::AFTER) {
            out |= Mask::X.0;
        }
        Mask(out)
    }

    /// True if two owners cannot have these sets at the same time.
    pub(super) const fn conflicts_with(self, other: Mask) -> bool {
        self.conflicts().meets(other)
    }

    /// True if a holder of `self` need not ask for `want`.
    pub(super) const fn covers(self, want: Mask) -> bool {
        let mut has = self.0;
        if self.meets(Mask::X) {
            has |= Mask::IS.0 | Mask::IX.0 | Mask::S.0;
        }
        if self.meets(Mask::S) || self.meets(Mask::IX) {
            has |= Mask::IS.0;
        }
        want.0 & !has == 0
    }
}

impl From<Mode> for Mask {
    fn from(mode: Mode) -> Mask {
        match mode {
            Mode::Shared => Mask::S,
            Mode::Exclusive => Mask::X,
        }
    }
}

impl From<TableMode> for Mask {
    fn from(mode: TableMode) -> Mask {
        match mode {
            TableMode::IntentShared => Mask::IS,
            TableMode::IntentExclusive => Mask::IX,
            TableMode::Shared => Mask::S,
            TableMode::Exclusive => Mask::X,
        }
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    const SINGLE: [Mask; 4] = [Mask::IS, Mask::IX, Mask::S, Mask::X];

    #[test]
    fn conflicts_are_the_textbook_table() {
        let mut out = String::from("     IS  IX  S   X\n");
        for a in SINGLE {
            out += &format!("{:<4}", a.to_string());
            for b in SINGLE {
                assert_eq!(a.conflicts_with(b), b.conflicts_with(a));
                out += if a.conflicts_with(b) { " -  " } else { " +  " };
            }
            out = out.trim_end().to_owned() + "\n";
        }
        expect![[r#"
                 IS  IX  S   X
            IS   +   +   +   -
            IX   +   +   -   -
            S    +   -   +   -
            X    -   -   -   -
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn who_covers_a_mode_conflicts_with_all_that_the_mode_conflicts_with() {
        for held in 0..16u8 {
            for want in SINGLE {
                let held = Mask(held);
                if held.covers(want) {
                    assert_eq!(held.conflicts().with(want.conflicts()), held.conflicts());
                }
            }
        }
    }
}
