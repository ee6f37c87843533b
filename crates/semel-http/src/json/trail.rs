//! The pointers that may still match below the reader's position.

use super::pointer::{Pointer, Token};

/// The pointers that agree with the path to the present place, for each place on that path.
///
/// A pointer is compared step by step as the reader goes down, and forgotten at the first step that
/// differs, so most of a text is read without a look at any.
pub(super) struct Trail<'a> {
    pointers: &'a [Pointer],
    /// Indexes into `pointers`; each open place owns a range.
    live: Vec<usize>,
}

/// A place in the text: how deep it is, and its range of live pointers, which end here or deeper.
#[derive(Clone, Copy)]
pub(super) struct Place {
    depth: usize,
    live_start: usize,
    live_end: usize,
}

/// A place that is being entered.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) place: Place,
    /// True if a pointer ends here.
    pub(super) is_hit: bool,
}

// === impl Place ===

impl Place {
    /// How many objects and arrays are around it.
    pub(super) fn depth(self) -> usize {
        self.depth
    }
}

// === impl Trail ===

impl<'a> Trail<'a> {
    pub(super) fn new(pointers: &'a [Pointer]) -> Self {
        Self { pointers, live: Vec::new() }
    }

    /// Enters the whole text.
    pub(super) fn enter_root(&mut self) -> Step {
        self.live.extend(0..self.pointers.len());
        let is_hit = self.pointers.iter().any(|pointer| pointer.tokens().is_empty());
        Step { place: Place { depth: 0, live_start: 0, live_end: self.live.len() }, is_hit }
    }

    /// Enters the value of a member of the object at `place`.
    pub(super) fn enter_member(&mut self, place: Place, name: &[u8]) -> Step {
        self.enter(place, |token| token.is_name(name))
    }

    /// Enters an element of the array at `place`.
    pub(super) fn enter_element(&mut self, place: Place, index: usize) -> Step {
        self.enter(place, |token| token.is_index(index))
    }

    /// Must follow each `enter`, with the place that it gave.
    pub(super) fn leave(&mut self, place: Place) {
        self.live.truncate(place.live_start);
    }

    fn enter(&mut self, place: Place, is_next: impl Fn(&Token) -> bool) -> Step {
        let live_start = self.live.len();
        let depth = place.depth + 1;
        let mut is_hit = false;
        for slot in place.live_start..place.live_end {
            let tokens = self.pointers[self.live[slot]].tokens();
            if tokens.get(place.depth).is_some_and(&is_next) {
                is_hit |= tokens.len() == depth;
                self.live.push(self.live[slot]);
            }
        }
        Step { place: Place { depth, live_start, live_end: self.live.len() }, is_hit }
    }
}
