//! The turns of contenders of several implementations with one lock, and checks of their order.
//!
//! No clock is involved: a turn spans two transactions made under the lock, so the ensemble has
//! ordered all turns.

use core::str::FromStr;

/// Whether a turn excludes all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It does.
    Exclusive,
    /// It excludes exclusive ones.
    Shared,
}

/// A turn, by its zxids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Whether the turn excludes all others.
    pub kind: Kind,
    /// The create of the lock node, which is the place in the queue.
    pub place: i64,
    /// A transaction after the acquisition.
    pub enter: i64,
    /// A transaction before the release.
    pub leave: i64,
}

impl FromStr for Turn {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let malformed = || format!("not a turn: {line}");
        let mut words = line.split(' ');
        let kind = match words.next() {
            Some("exclusive") => Kind::Exclusive,
            Some("shared") => Kind::Shared,
            _ => return Err(malformed()),
        };
        let mut zxid = || words.next()?.parse().ok();
        let mut turn = || Some(Self { kind, place: zxid()?, enter: zxid()?, leave: zxid()? });
        turn().ok_or_else(malformed)
    }
}

impl Turn {
    fn excludes(&self, other: &Self) -> bool {
        self.kind == Kind::Exclusive || other.kind == Kind::Exclusive
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.enter <= other.leave && other.enter <= self.leave
    }
}

/// Returns the pairs of turns that overlap but must not.
pub fn together(turns: &[Turn]) -> Vec<(Turn, Turn)> {
    pairs(turns).filter(|(one, other)| one.excludes(other) && one.overlaps(other)).collect()
}

/// Returns the pairs of conflicting turns that were served in the wrong order.
pub fn overtaken(turns: &[Turn]) -> Vec<(Turn, Turn)> {
    let in_order =
        |one: &Turn, other: &Turn| (one.place < other.place) == (one.enter < other.enter);
    pairs(turns).filter(|(one, other)| one.excludes(other) && !in_order(one, other)).collect()
}

/// Returns the number of turns that waited for a conflicting holder.
pub fn waited(turns: &[Turn]) -> usize {
    let held_up = |turn: &&Turn| {
        let against = |other: &Turn| turn.excludes(other) && other.enter < turn.enter;
        turns.iter().any(|other| against(other) && turn.place < other.leave)
    };
    turns.iter().filter(held_up).count()
}

/// Returns the maximum number of simultaneous holders.
pub fn most_at_once(turns: &[Turn]) -> usize {
    let at = |moment: i64| {
        turns.iter().filter(|turn| (turn.enter..=turn.leave).contains(&moment)).count()
    };
    turns.iter().map(|turn| at(turn.enter)).max().unwrap_or(0)
}

fn pairs(turns: &[Turn]) -> impl Iterator<Item = (Turn, Turn)> {
    let after = |(place, one): (usize, &Turn)| {
        let one = *one;
        turns[place + 1..].iter().map(move |other| (one, *other))
    };
    turns.iter().enumerate().flat_map(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(line: &str) -> Turn {
        line.parse().expect("a turn")
    }

    #[test]
    fn overlapping_and_overtaken_turns_are_found() {
        let first = turn("exclusive 1 10 12");
        let second = turn("exclusive 2 13 15");
        let early = turn("exclusive 3 12 14");
        assert_eq!(together(&[first, second]), []);
        assert_eq!(together(&[first, second, early]), [(first, early), (second, early)]);
        assert_eq!(overtaken(&[second, first]), []);
        assert_eq!((waited(&[first, second]), waited(&[second])), (1, 0));
        assert_eq!(overtaken(&[first, second, early]), [(second, early)]);
    }

    #[test]
    fn readers_may_overlap_in_any_order() {
        let (one, other) = (turn("shared 1 11 14"), turn("shared 2 10 12"));
        let writer = turn("exclusive 3 14 16");
        let turns = [one, other, writer];
        assert_eq!((together(&turns), overtaken(&turns)), (vec![(one, writer)], vec![]));
        assert_eq!((most_at_once(&turns), most_at_once(&[])), (2, 0));
    }

    #[test]
    fn invalid_lines_are_refused() {
        for line in ["", "ready", "exclusive 1 2", "shared 1 2 x"] {
            assert!(line.parse::<Turn>().is_err(), "{line}");
        }
    }
}
