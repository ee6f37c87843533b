-- Reads the record.
--
-- ARGV: whether to confirm
-- Answers: 1 with the record; 3 if there is none, or none that has not expired

local seen = look()
if not seen then
  return { 3 }
end
return with_record(seen)
