-- Earlier releases also stored digests of bcrypt as they were imported in PHC form, $bcrypt$v=98$r=COST$SALT$HASH with 22 and 31
-- characters. The usual form has the same bits in another alphabet.
UPDATE users SET password_digest = '$2b$' || lpad(substr(password_digest, 16, length(password_digest) - 70), 2, '0') || '$' || translate(
  substr(password_digest, length(password_digest) - 53, 22) || right(password_digest, 31),
  'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/',
  './ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
)
WHERE password_digest LIKE '$bcrypt$v=98$r=%';
