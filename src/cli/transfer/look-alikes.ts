import type { ColumnOptions } from './column-options.ts'

/** Names that other systems give to fields, without what is not a letter or digit. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  name: `fullname displayname realname completename nameandsurname vollstandigername anzeigename nomcomplet nombrecompleto
    nomecompleto nomeutente`,
  email: `mail emails mails emailaddress emailaddresses emailaddr mailaddress useremail usermail primaryemail contactemail
    emailadresse mailadresse epost epostadresse epostadress courriel adressemail adresseemail adressecourriel adresseelectronique
    correo correoelectronico direcciondecorreo direcciondecorreoelectronico enderecodeemail indirizzoemail posta
    adresemail adrespocztyelektronicznej sahkoposti`,
  password:
    'pass passwd pwd userpassword plainpassword passwort kennwort motdepasse contrasena senha haslo',
  password_digest: `digest hash encryptedpassword cryptedpassword passwordhash hashedpassword passhash pwdhash pwhash
    userpass userpasswordhash bcrypt`,
  created_at: `created createdon createddate createdtime createdtimestamp creationdate creationtime datecreated
    joined joinedat datejoined registered registeredat registrationdate userregistered signupdate erstellt erstelltam`,
  updated_at: `updated updatedon updateddate updatedtime updatedtimestamp dateupdated modified modifiedat modifiedon
    modifieddate datemodified lastmodified lastupdated`,
}

/** Names of the columns that are a name together. */
const PARTS_OF_NAMES = {
  given: `first firstname givenname given forename vorname prenom nombre nombres primernombre nome imie fornavn fornamn etunimi
    userfirstname fname namefirst`,
  family: `last lastname familyname family surname nachname familienname nom nomdefamille apellido apellidos cognome sobrenome
    apelido nazwisko etternavn efternavn efternamn sukunimi userlastname lname namelast sn`,
}

function byName(table: Readonly<Record<string, string>>): ReadonlyMap<string, string> {
  return new Map(
    Object.entries(table).flatMap(([field, names]) =>
      [lettersOf(field), ...names.split(/\s+/)].map(name => [name, field]),
    ),
  )
}

const FIELDS = byName(OTHER_NAMES)
const PARTS = byName(PARTS_OF_NAMES)

/**
 * The field that a column looks like: its name is that of the field in other letters or marks, or a usual name for it.
 * Never `id`, because ids of another system are better left.
 */
export function fieldLike(column: string): string | undefined {
  return FIELDS.get(lettersOf(column))
}

/** Whether a column, or a path of JSON, is taken as a password or its digest, or a part of its name looks like one. */
export function mayBePassword(column: string, taken: ColumnOptions['taken']): boolean {
  const isPassword = (field = '') => field.startsWith('password')
  const words = [...column.split('.'), ...column.split(/[^\p{L}\p{N}]/u)]
  const namesOf = (path: string) => `.${path.toLowerCase()}.`.replace(/\.\d+(?=\.)/g, '')
  return (
    words.some(word => /passw|pwd/i.test(word) || isPassword(fieldLike(word))) ||
    taken.some(
      option => isPassword(option.field) && namesOf(column).includes(namesOf(option.column)),
    )
  )
}

/** Whether a column looks like the `given` or the `family` name. */
export function partOfName(column: string): string | undefined {
  return PARTS.get(lettersOf(column))
}

/** Without accents and a remark in brackets at the end, as in `Password [Required]`, and in lower case. */
function lettersOf(text: string): string {
  return text
    .replace(/(?<=.)(\[[^\]]{0,99}\]|\([^)]{0,99}\))$/, '')
    .normalize('NFD')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]/gu, '')
}
