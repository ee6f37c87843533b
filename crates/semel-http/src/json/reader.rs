//! One pass over a text that checks its grammar and drafts its canonical form.

use super::draft::{Draft, IGNORED, STRING_END};
use super::number::number_end;
use super::pointer::Pointer;
use super::string::unescape;
use super::trail::{Place, Step, Trail};
use super::{DEPTH_MAX, NotCanonical, Scalar};

/// Reads one text. Recurses once per level, so at most `DEPTH_MAX` times.
pub(super) struct Reader<'a> {
    text: &'a [u8],
    /// The position of the next byte.
    at: usize,
    draft: Draft,
    trail: Trail<'a>,
    on_hit: OnHit,
}

/// What to do with the values that the pointers lead to.
pub(super) enum OnHit {
    /// Keep them out of the canonical form.
    LeaveOut,
    /// Leave them in, and take the last one.
    Take(Option<Scalar>),
}

type Done = Result<(), NotCanonical>;

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(super) fn new(
        text: &'a [u8],
        pointers: &'a [Pointer],
        on_hit: OnHit,
    ) -> Result<Self, NotCanonical> {
        std::str::from_utf8(text).map_err(|_| NotCanonical::NotUtf8)?;
        let draft = Draft::for_text(text.len());
        Ok(Self { text, at: 0, draft, trail: Trail::new(pointers), on_hit })
    }

    /// Reads all of the text.
    pub(super) fn read(&mut self) -> Done {
        let root = self.trail.enter_root();
        self.keep_place(root)?;
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.syntax()),
        }
    }

    pub(super) fn into_canonical(self) -> Vec<u8> {
        self.draft.canonicalised()
    }

    pub(super) fn into_taken(self) -> Option<Scalar> {
        match self.on_hit {
            OnHit::Take(taken) => taken,
            OnHit::LeaveOut => None,
        }
    }

    /// Reads a value, and puts a mark where it would be if it is ignored.
    fn keep_place(&mut self, step: Step) -> Done {
        if self.is_ignored_value(step)? {
            self.draft.bytes.push(IGNORED);
        }
        Ok(())
    }

    /// Reads a value, and drafts it unless it is ignored. Returns true if it is ignored.
    fn is_ignored_value(&mut self, step: Step) -> Result<bool, NotCanonical> {
        let before = self.draft.mark();
        self.value(step.place)?;
        self.trail.leave(step.place);
        if !step.is_hit {
            return Ok(false);
        }
        match &mut self.on_hit {
            OnHit::LeaveOut => {
                self.draft.back_to(before);
                Ok(true)
            }
            OnHit::Take(taken) => {
                *taken = Some(scalar(self.draft.since(before)));
                Ok(false)
            }
        }
    }

    fn value(&mut self, place: Place) -> Done {
        match self.peek() {
            Some(b'{') => self.object(place),
            Some(b'[') => self.array(place),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            _ => Err(self.syntax()),
        }
    }

    fn object(&mut self, place: Place) -> Done {
        self.go_deeper(place)?;
        let object = self.draft.open_object();
        if !self.take(b'}') {
            self.member(place)?;
            while self.take(b',') {
                self.member(place)?;
            }
            self.expect(b'}')?;
        }
        self.draft.close_object(object)
    }

    fn member(&mut self, object: Place) -> Done {
        if self.peek() != Some(b'"') {
            return Err(self.syntax());
        }
        let start = self.draft.bytes.len();
        self.string()?;
        let member = self.draft.open_member(start);
        self.expect(b':')?;
        let step = self.trail.enter_member(object, self.draft.name(member));
        let is_ignored = self.is_ignored_value(step)?;
        self.draft.close_member(member, is_ignored);
        Ok(())
    }

    fn array(&mut self, place: Place) -> Done {
        self.go_deeper(place)?;
        self.draft.bytes.push(b'[');
        if !self.take(b']') {
            self.elements(place)?;
            self.expect(b']')?;
        }
        self.draft.bytes.push(b']');
        Ok(())
    }

    fn elements(&mut self, array: Place) -> Done {
        for index in 0.. {
            let step = self.trail.enter_element(array, index);
            self.keep_place(step)?;
            if !self.take(b',') {
                break;
            }
            self.draft.bytes.push(b',');
        }
        Ok(())
    }

    /// Steps over the opening bracket of the object or array at `place`.
    fn go_deeper(&mut self, place: Place) -> Done {
        if place.depth() == DEPTH_MAX {
            return Err(NotCanonical::TooDeep { max: DEPTH_MAX });
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Done {
        self.draft.bytes.push(b'"');
        self.at = unescape(self.text, self.at + 1, &mut self.draft.bytes)?;
        self.draft.bytes.push(STRING_END);
        Ok(())
    }

    fn number(&mut self) -> Done {
        let end = number_end(self.text, self.at)?;
        self.draft.bytes.extend_from_slice(&self.text[self.at..end]);
        self.at = end;
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Done {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.syntax());
        }
        self.draft.bytes.extend_from_slice(word);
        self.at += word.len();
        Ok(())
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// Skips white space, and `byte` if it comes next. Returns true if it does.
    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Done {
        if self.take(byte) { Ok(()) } else { Err(self.syntax()) }
    }

    fn syntax(&self) -> NotCanonical {
        NotCanonical::Syntax { at: self.at }
    }
}

/// A value as it is drafted.
fn scalar(drafted: &[u8]) -> Scalar {
    // Strings of the draft are UTF-8, and numbers ASCII, so nothing is lost.
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    match drafted {
        [b'"', inside @ .., STRING_END] => Scalar::String(text(inside)),
        [b'-' | b'0'..=b'9', ..] => Scalar::Number(text(drafted)),
        _ => Scalar::Other,
    }
}
