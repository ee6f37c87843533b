-- Tells those who wait for the record that it is worth a look.

tell(RELEASED)
