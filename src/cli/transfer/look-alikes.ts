/** Names that other systems give to fields, without what is not a letter or digit. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  name: 'fullname displayname realname completename',
  email: 'mail emailaddress emailaddr mailaddress useremail usermail primaryemail contactemail',
  password: 'pass passwd pwd userpassword plainpassword',
  password_digest: `digest hash encryptedpassword cryptedpassword passwordhash hashedpassword passhash pwdhash pwhash
    userpass userpasswordhash`,
  created_at: `created createdon createddate createdtime createdtimestamp creationdate creationtime datecreated
    joined joinedat datejoined registered registeredat registrationdate userregistered signupdate`,
  updated_at: `updated updatedon updateddate updatedtime updatedtimestamp dateupdated modified modifiedat modifiedon
    modifieddate datemodified lastmodified lastupdated`,
}

const FIELDS = new Map(
  Object.entries(OTHER_NAMES).flatMap(([field, names]) =>
    [lettersOf(field), ...names.split(/\s+/)].map(name => [name, field]),
  ),
)

/**
 * The field that a column looks like: its name is that of the field in other letters or marks, or a usual name for it.
 * Never `id`, because ids of another system are better left.
 */
export function fieldLike(column: string): string | undefined {
  return FIELDS.get(lettersOf(column))
}

function lettersOf(text: string): string {
  return text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '')
}
