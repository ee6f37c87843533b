//! The canonical form under construction: first in the order of the text, then with members sorted.
//!
//! A value is written so that where it ends follows from its own bytes, and so that its first byte
//! tells its kind:
//!
//! - a string is `"`, its UTF-8 without escapes, and the byte [`STRING_END`], which UTF-8 never
//!   has;
//! - a number, `true`, `false` and `null` are as in the text, and followed by a comma, a bracket or
//!   nothing;
//! - an array is `[`, its elements with commas between them, and `]`;
//! - an object is `{`, its members in the order of their names' bytes, and `}`; a member is its
//!   name as a string, its value and a comma;
//! - what is ignored, but must keep its place, is [`IGNORED`].
//!
//! So no two values have the same bytes, and no value takes more bytes than the text it came from.

use std::ops::Range;

use super::NotCanonical;

/// Ends a string.
pub(super) const STRING_END: u8 = 0xff;
/// Stands for an ignored value. No value starts with it.
pub(super) const IGNORED: u8 = b'~';

/// The members of objects are sorted as soon as an object ends, but moved only when all is read:
/// moving them at once would move what lies deep down once for each level above it.
pub(super) struct Draft {
    /// What is written so far, in the order of the text.
    pub(super) bytes: Vec<u8>,
    /// The members so far of each object that has not ended.
    members: Vec<Member>,
    /// The objects whose members must move, in the order of their ends.
    rewrites: Vec<Rewrite>,
    /// The members of the rewritten objects, in the right order: ranges of `bytes`.
    sorted: Vec<Range<usize>>,
}

/// A member of an object that has not ended; positions are in [`Draft::bytes`].
struct Member {
    start: usize,
    name_end: usize,
    end: usize,
    is_ignored: bool,
}

/// An object whose members are not in the order of their names, or not all wanted.
struct Rewrite {
    /// The position of its `{`, which no other object has.
    start: usize,
    /// The position of its `}`.
    end: usize,
    /// Its members, a range of [`Draft::sorted`].
    sorted: Range<usize>,
}

/// An object that has not ended.
#[derive(Clone, Copy)]
pub(super) struct OpenObject {
    start: usize,
    members_start: usize,
}

/// A member whose value is being read.
#[derive(Clone, Copy)]
pub(super) struct OpenMember {
    start: usize,
    name_end: usize,
}

/// A state of the draft, to go back to.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    bytes: usize,
    rewrites: usize,
    sorted: usize,
}

// === impl Draft ===

impl Draft {
    /// An empty draft for a text of `len` bytes.
    pub(super) fn for_text(len: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(len),
            members: Vec::new(),
            rewrites: Vec::new(),
            sorted: Vec::new(),
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), rewrites: self.rewrites.len(), sorted: self.sorted.len() }
    }

    /// What was written since `mark`.
    pub(super) fn since(&self, mark: Mark) -> &[u8] {
        &self.bytes[mark.bytes..]
    }

    /// Takes back what was written since `mark`: whole values only.
    pub(super) fn back_to(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.rewrites.truncate(mark.rewrites);
        self.sorted.truncate(mark.sorted);
    }

    pub(super) fn open_object(&mut self) -> OpenObject {
        let start = self.bytes.len();
        self.bytes.push(b'{');
        OpenObject { start, members_start: self.members.len() }
    }

    /// To be called when the name, a string, has been written from `start` on.
    pub(super) fn open_member(&self, start: usize) -> OpenMember {
        OpenMember { start, name_end: self.bytes.len() }
    }

    /// The name of a member, without escapes.
    pub(super) fn name(&self, member: OpenMember) -> &[u8] {
        inside(&self.bytes, member.start, member.name_end)
    }

    pub(super) fn close_member(&mut self, member: OpenMember, is_ignored: bool) {
        self.bytes.push(b',');
        let OpenMember { start, name_end } = member;
        self.members.push(Member { start, name_end, end: self.bytes.len(), is_ignored });
    }

    pub(super) fn close_object(&mut self, object: OpenObject) -> Result<(), NotCanonical> {
        let members = &self.members[object.members_start..];
        let ascend = members.is_sorted_by(|a, b| a.name(&self.bytes) < b.name(&self.bytes));
        if !ascend || members.iter().any(|member| member.is_ignored) {
            self.sort_members(object)?;
        }
        self.members.truncate(object.members_start);
        self.bytes.push(b'}');
        Ok(())
    }

    /// Notes the right order of the members of `object`, which ends here.
    fn sort_members(&mut self, object: OpenObject) -> Result<(), NotCanonical> {
        let bytes = &self.bytes;
        let members = &mut self.members[object.members_start..];
        members.sort_unstable_by(|a, b| a.name(bytes).cmp(b.name(bytes)));
        if members.windows(2).any(|pair| pair[0].name(bytes) == pair[1].name(bytes)) {
            return Err(NotCanonical::DuplicateMember);
        }
        let sorted_start = self.sorted.len();
        let wanted = members.iter().filter(|member| !member.is_ignored);
        self.sorted.extend(wanted.map(|member| member.start..member.end));
        let sorted = sorted_start..self.sorted.len();
        self.rewrites.push(Rewrite { start: object.start, end: bytes.len(), sorted });
        Ok(())
    }

    /// The canonical form.
    pub(super) fn canonicalised(mut self) -> Vec<u8> {
        if self.rewrites.is_empty() {
            return self.bytes;
        }
        // Outer objects before those within, for `first_rewrite`.
        self.rewrites.sort_unstable_by_key(|object| object.start);
        let mut canonical = Vec::with_capacity(self.bytes.len());
        self.copy_canonical(0..self.bytes.len(), &mut canonical);
        canonical
    }

    /// Appends a part of the draft that does not cut through an object. Each level of recursion
    /// goes into an object, so there are at most `DEPTH_MAX`.
    fn copy_canonical(&self, part: Range<usize>, canonical: &mut Vec<u8>) {
        let mut rest = part;
        while let Some(object) = self.first_rewrite(&rest) {
            canonical.extend_from_slice(&self.bytes[rest.start..=object.start]);
            for member in &self.sorted[object.sorted.clone()] {
                self.copy_canonical(member.clone(), canonical);
            }
            rest.start = object.end;
        }
        canonical.extend_from_slice(&self.bytes[rest]);
    }

    fn first_rewrite(&self, part: &Range<usize>) -> Option<&Rewrite> {
        let first = self.rewrites.partition_point(|object| object.start < part.start);
        self.rewrites.get(first).filter(|object| object.start < part.end)
    }
}

// === impl Member ===

impl Member {
    fn name<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        inside(bytes, self.start, self.name_end)
    }
}

/// What the string says that was written from `start` to `end`.
fn inside(bytes: &[u8], start: usize, end: usize) -> &[u8] {
    &bytes[start + 1..end - 1]
}
