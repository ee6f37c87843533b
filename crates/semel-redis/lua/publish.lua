-- Notifies the waiters of the record.

publish(RELEASED)
