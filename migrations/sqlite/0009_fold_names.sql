-- Some letters have two small forms, such as the micro sign and the Greek letter of the same look, and lower case keeps
-- them apart: name_lower holds the usual one of each from here on, so that a name is found whichever it was written in.
-- The letters first, then those that make one letter with the mark behind them, as the composed form (NFC) has it.
UPDATE users SET name_lower =
  replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(
  replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(
  replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(
  replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(
  replace(replace(replace(
  name_lower,
  'µ', 'μ'), 'ſ', 's'), char(837), 'ι'), 'ϐ', 'β'), 'ϑ', 'θ'),
  'ϕ', 'φ'), 'ϖ', 'π'), 'ϰ', 'κ'), 'ϱ', 'ρ'), 'ϵ', 'ε'),
  'ᲀ', 'в'), 'ᲁ', 'д'), 'ᲂ', 'о'), 'ᲃ', 'с'), 'ᲄ', 'т'),
  'ᲅ', 'т'), 'ᲆ', 'ъ'), 'ᲇ', 'ѣ'), 'ᲈ', 'ꙋ'), 'ẛ', 'ṡ'),
  'ﬅ', 'ﬆ'), 's' || char(769), 'ś'), 's' || char(770), 'ŝ'), 's' || char(780), 'š'), 's' || char(803), 'ṣ'),
  's' || char(806), 'ș'), 's' || char(807), 'ş'), 'ρ' || char(787), 'ῤ'), 'ρ' || char(788), 'ῥ'), 'ε' || char(768), 'ὲ'),
  'ε' || char(769), 'έ'), 'ε' || char(787), 'ἐ'), 'ε' || char(788), 'ἑ'), 'о' || char(776), 'ӧ'), 'ṡ' || char(803), 'ṩ'),
  'ṡ' || char(806), 'ș' || char(775)), 'ṡ' || char(807), 'ş' || char(775)), 'ś' || char(775), 'ṥ'), 'š' || char(775), 'ṧ'), 'ἐ' || char(768), 'ἒ'),
  'ἐ' || char(769), 'ἔ'), 'ἑ' || char(768), 'ἓ'), 'ἑ' || char(769), 'ἕ')
WHERE name_lower GLOB '*[µſϐϑϕϖϰϱϵᲀᲁᲂᲃᲄᲅᲆᲇᲈẛﬅ]*' OR instr(name_lower, char(837)) > 0;
