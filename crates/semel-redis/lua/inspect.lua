-- Looks at the record: the whole of it, or nothing if there is none or none that has not expired.

return look(now_ms()) and whole()
