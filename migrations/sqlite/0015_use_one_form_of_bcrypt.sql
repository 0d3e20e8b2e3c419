-- Earlier releases also stored digests of bcrypt as they were imported in PHC form, $bcrypt$v=98$r=COST$SALT$HASH with 22 and 31
-- characters. The usual form has the same bits in another alphabet.
UPDATE users SET password_digest = '$2b$' || printf('%02d', substr(password_digest, 16, length(password_digest) - 70)) || '$' || (
  WITH RECURSIVE
    given(text) AS (SELECT substr(password_digest, -54, 22) || substr(password_digest, -31)),
    translated(count, text) AS (
      SELECT 0, ''
      UNION ALL
      SELECT count + 1, translated.text || substr(
        './ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789',
        instr('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/', substr(given.text, count + 1, 1)),
        1
      )
      FROM translated, given WHERE count < 53
    )
  SELECT text FROM translated WHERE count = 53
)
WHERE password_digest GLOB '$bcrypt$v=98$r=*';
