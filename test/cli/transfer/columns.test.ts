import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { runCommand } from '../../support/run-command.ts'
import {
  folderWith,
  importing,
  manyRows,
  namesIn,
  ndjson,
  refusalOf,
  rejectsIn,
  takenUsers,
  usersIn,
} from '../../support/transfer.ts'

const BCRYPT = '$2b$04$RQtlsC7ue5hODLwZHch7Sel0enVDRiap0oh/n5J50yj5VZhBrQeE2'

const ANN = { name: 'Ann', email: 'ann@example.com' }

/** More rows than those by which the columns of JSON are announced. */
const MANY = manyRows(2200).map(row => ({ ...row, note: 'x'.repeat(800) }))

/** `import` of a file, with all that it writes to standard error. */
function importFile(content: string, file: string, ...args: string[]) {
  const cwd = folderWith(content, file)
  return { cwd, finished: runCommand({ cwd, args: ['import', file, ...args] }) }
}

/** The option for each of these, such as `login=name`. */
const columns = (...texts: string[]) => texts.flatMap(text => ['--column', text])

describe('before the first row, import says which columns it reads and leaves', () => {
  test.each([
    ['users.csv', 'EMAIL,Phone,Name,,\nann@example.com,1,Ann,,\n'],
    ['empty.csv', 'EMAIL,Phone,Name\n'],
    ['users.csv', 'EMAIL,Phone,Name,Phone\nann@example.com,1,Ann,2\n'],
  ])('of %s: %j', async (file, text) => {
    const { finished } = importFile(text, file)
    const line = 'columns: reads "EMAIL" as email, "Name" as name; leaves "Phone"\n'
    expect(await finished).toMatchObject({ code: 0, stderr: line })
  })

  test('of JSON that begins with a long line that is no row', async () => {
    const { finished } = importFile(`${'x'.repeat(2 ** 21)}\n${ndjson([ANN])}`, 'users.ndjson')
    const line = /^columns: reads "name", "email"; leaves nothing\nline 1: row is longer/
    expect(await finished).toMatchObject({ code: 3, stderr: expect.stringMatching(line) })
  })

  test('of JSON by its first rows, with those of an object, and later what else it left', async () => {
    const first = [
      { ...ANN, tags: ['a'], team: { id: 1, name: 'Red' } },
      { ...ANN, phone: 1 },
    ]
    const rows = [...first, ...MANY, { ...manyRows(1)[0], fax: 1, phone: 2 }]
    const { finished } = importFile(ndjson(rows), 'users.ndjson', '--on-conflict', 'skip')
    const left = 'leaves "tags.0", "team.id", "team.name", "phone", "note"'
    const { stderr } = await finished
    expect(stderr.split('\n').filter(line => !line.endsWith(' rows/s'))).toEqual([
      `columns: reads "name", "email"; ${left}`,
      'later rows have other columns, which were left: "fax"',
      '',
    ])
  })

  test('and which field no column of JSON is', async () => {
    const { finished } = importFile(ndjson([{ email: 'ann@example.com', title: 'Dr' }]), 'a.ndjson')
    const none = 'none is read as name: --column "COLUMN=name" takes one'
    expect((await finished).stderr.split('\n')).toEqual([
      `columns: reads "email"; leaves "title"; ${none}`,
      "line 1: name can't be blank",
      '',
    ])
  })
})

describe('--column', () => {
  test('takes columns of CSV as fields, by their headings in any case', async () => {
    const csv = `ID,Login,E-Mail,Hash,since\n7,ann,ann@example.com,${BCRYPT},2020-01-31T12:00:00Z\n`
    const names = ['login=name', 'E-Mail=email', 'HASH=password_digest', 'Since=created_at']
    const { cwd, finished } = importFile(csv, 'users.csv', ...columns(...names))
    expect(await finished).toMatchObject({
      code: 0,
      stderr:
        'columns: reads "Login" as name, "E-Mail" as email, "Hash" as password_digest, ' +
        '"since" as created_at, "ID" as id; leaves nothing\n',
    })
    const created_at = '2020-01-31T12:00:00.000Z'
    const user = { id: 7, name: 'ann', email: 'ann@example.com', password_digest: BCRYPT }
    expect(usersIn(cwd)).toMatchObject([{ ...user, created_at }])
  })

  test('takes paths of JSON, and rather a key that has dots in it', async () => {
    const rows = [
      { n: 'Ann', mails: [{ to: 'ann@example.com' }], credentials: [{ hash: BCRYPT }] },
      { n: 'Bea', 'mails.0.to': 'bea@example.com', mails: [{ to: 'x@example.com' }] },
      { n: 'Cid', mails: 'none', credentials: null },
    ]
    const args = columns('n=name', 'mails.0.to=email', 'credentials.0.hash=password_digest')
    const { cwd, finished } = importFile(ndjson(rows), 'users.ndjson', ...args)
    expect((await finished).stderr).toMatch(/leaves nothing\nline 3: email can't be blank\n$/)
    expect(usersIn(cwd)).toMatchObject([
      { name: 'Ann', email: 'ann@example.com', password_digest: BCRYPT },
      { name: 'Bea', email: 'bea@example.com', password_digest: null },
    ])
  })

  test('takes a text for an array of one, and never a character of it', async () => {
    const rows = [
      { name: ['Ann', 'Lee'], email: ['ann@example.com'] },
      { name: 'Bea', email: 'bea@example.com' },
    ]
    const args = columns('name.0=name', 'name.1=name', 'email.0=email')
    expect(await takenUsers(ndjson(rows), 'users.ndjson', ...args)).toMatchObject([
      { name: 'Ann Lee', email: 'ann@example.com' },
      { name: 'Bea', email: 'bea@example.com' },
    ])
  })

  test('exchanges two columns, and takes one as two fields', async () => {
    const csv = 'name,email\nann@example.com,Ann\n'
    const exchange = columns('name=email', 'email=name')
    expect(await takenUsers(csv, 'users.csv', ...exchange)).toMatchObject([ANN])
    const rows = ndjson([{ login: 'a@example.com' }])
    const doubled = await takenUsers(rows, 'users.ndjson', ...columns('login=email', 'login=name'))
    expect(doubled).toMatchObject([{ name: 'a@example.com', email: 'a@example.com' }])
  })

  test.each([
    ['E-Mail', '--column "E-Mail" must be COLUMN=FIELD, such as "E-Mail=email"'],
    ['a=mail', '--column "a=mail": there is no field "mail"; fields are name, email, password, id'],
    ['b=email', '--column takes both "a" and "b" as email'],
    ['ignored=name', '--column and --ignore both name "ignored"'],
  ])('%s is wrong usage', async (option, says) => {
    const args = [...columns('a=email', option), '--ignore', 'ignored']
    const { finished } = importFile(ndjson([ANN]), 'users.ndjson', ...args)
    expect(await finished).toMatchObject({ code: 2, stderr: expect.stringContaining(says) })
  })

  const BOTH = '"login" and "name" are both read as name: --ignore "name" leaves the second\n'

  test.each([
    [
      'name,mailbox\nAnn,a@example.com\n',
      'mailbx=email',
      'the first line does not name "mailbx", which --column takes as email; it names "name", "mailbox"',
    ],
    [
      'Ann,a@example.com,hunter22\n',
      'mail=email',
      'the first line holds an e-mail address, but it must name the columns, such as name,email\n',
    ],
    [
      'name,email,login,login\n',
      'login=id',
      'the first line names "login" twice: rename the one to leave\n',
    ],
    ['name,email,login\n', 'login=name', BOTH],
    [
      'name,email,NAME\n',
      'name=name',
      '"name" and "NAME" are both read as name: --ignore "NAME" leaves the second\n',
    ],
    [ndjson([{ ...ANN, login: 'ann' }]), 'login=name', BOTH],
    [
      'email,name,lastname\n',
      'lastname=name',
      '"lastname" and "name" are both read as name: --column "name=name" --column "lastname=name" joins them, --ignore "name" leaves',
    ],
    [
      ndjson([{ ...ANN, given: 'Ann' }]),
      'given=name',
      '"given" and "name" are both read as name: --column "given=name" --column "name=name" joins them, --ignore',
    ],
    ['email,name,first,last\n', 'last=name', BOTH.replace('login', 'last')],
    [
      ndjson([ANN]),
      'nope=name',
      'no row has "nope", which --column takes as name; rows have "name"\n',
    ],
    [
      ndjson([ANN, { ...ANN, nick: 'ann' }]),
      'credentials.0.hash=password_digest',
      'no row has "credentials.0.hash", which --column takes; rows have "name", "email", "nick"\n',
    ],
  ])('that does not fit %j ends the import before its first row', async (text, column, says) => {
    const file = text.startsWith('{') ? 'users.ndjson' : 'users.csv'
    const said = await refusalOf(text, file, '--column', column)
    expect(said).toMatch(/^.+\n$/)
    expect(said.startsWith(says)).toBe(true)
  })

  test('takes a column of the name of a hidden property', async () => {
    for (const [file, text] of [
      ['users.csv', '__proto__,email\nAnn,ann@example.com\n'],
      ['users.ndjson', '{"__proto__": "Ann", "email": "ann@example.com"}\n'],
    ] as const)
      expect(await takenUsers(text, file, '--column', '__proto__=name')).toMatchObject([ANN])
  })

  test('that is in none of many rows is announced, and ends the import with code 1', async () => {
    const args = columns('hash=password_digest')
    const { cwd, finished } = importFile(ndjson(MANY), 'users.ndjson', ...args)
    const { code, stderr } = await finished
    expect(code).toBe(1)
    expect(stderr).toMatch(
      /^columns: .+; no row so far has "hash"\n(.+\n)*no row has "hash", which/,
    )
    expect(usersIn(cwd)).toHaveLength(MANY.length)
  })
})

test.each([
  ['name,email', 'no column is read as "email", and --ignore leaves "email"\n'],
  ['name,Email,email', 'no column is read as "email", and --ignore leaves "Email", "email"\n'],
  ['name,email,email', 'the first line names "email" twice: rename the one to leave\n'],
])('--ignore email and EMAIL of %s ends the import', async (headings, says) => {
  const args = ['--ignore', 'EMAIL', '--ignore', 'email']
  expect(await refusalOf(`${headings}\n`, 'users.csv', ...args)).toBe(says)
})

describe('a column that is left and looks like a field ends the import', () => {
  test.each([
    ['e-mail', 'email'],
    ['E Mail', 'email'],
    ['mail', 'email'],
    ['user_email', 'email'],
    ['displayName', 'name'],
    ['full_name', 'name'],
    ['encrypted_password', 'password_digest'],
    ['passwordHash', 'password_digest'],
    ['password_hash', 'password_digest'],
    ['digest', 'password_digest'],
    ['user_pass', 'password_digest'],
    ['createdAt', 'created_at'],
    ['created', 'created_at'],
    ['E-Mail-Adresse', 'email'],
    ['Courriel', 'email'],
    ['Correo electrónico', 'email'],
    ['Passwort', 'password'],
    ['Password [Required]', 'password'],
    ['E-Mail (privat)', 'email'],
    ['[Email]', 'email'],
  ])('%s, and says how to take it as %s or leave it', async (column, field) => {
    const take = `--column "${column}=${field}"`
    for (const [file, text] of [
      ['users.csv', `name,email,${column}\nAnn,ann@example.com,x\n`],
      ['users.ndjson', ndjson([{ ...ANN, [column]: 'x' }])],
    ] as const) {
      const said = await refusalOf(text, file)
      expect(said).toMatch(/^.+\n$/)
      expect(said).toContain(`"${column}" looks like ${field}`)
      expect(said).toContain(take)
      expect(said).toContain(`--ignore "${column}" leaves it`)
      const ignored = await takenUsers(text, file, '--ignore', column)
      expect(ignored).toMatchObject([{ ...ANN, password_digest: null }])
    }
  })

  test('also if its field is read from another column, and all of them in one line', async () => {
    const csv = 'email,display_name,user_pass,password,e-mail\na@example.com,A,B,C,D\n'
    expect((await refusalOf(csv, 'users.csv')).split('; ')).toEqual([
      '"display_name" looks like name: --column "display_name=name" takes it, --ignore "display_name" leaves it',
      '"user_pass" looks like password_digest: --column "user_pass=password_digest" takes it, --ignore "user_pass" leaves it',
      '"e-mail" looks like email, which "email" is: --ignore "e-mail" leaves it, ' +
        '--column "e-mail=email" --ignore "email" takes it instead\n',
    ])
  })

  test('and if an option takes that field, says which one to replace', async () => {
    expect(await refusalOf('name,login,mail\n', 'users.csv', '--column', 'login=email')).toBe(
      '"mail" looks like email, which "login" is: --ignore "mail" leaves it, ' +
        '--column "mail=email" in place of --column "login=email" takes it\n',
    )
  })

  test('but for the digests of Meteor, which are no bcrypt of passwords, it names the recipe', async () => {
    const row = { ...ANN, services: { password: { bcrypt: 'x' } } }
    const said = await refusalOf(ndjson([row]), 'users.ndjson')
    expect(said).toContain('before bcrypt: docs/moving-in.md has its recipe, --ignore "services')
    expect(said).not.toContain('--column')
  })

  test.each([
    ['mail!', `'mail!'`],
    ['"mail" $', `'"mail" $'`],
    ["'mail'", `"'mail'"`],
    ["'mail'!", `''\\''mail'\\''!'`],
    ["'mail'\n\u001b!\\", `$'\\x27mail\\x27\\x0a\\x1b\\x21\\x5c'`],
  ])('%j, quoted so that a shell takes it as it is', async (column, shown) => {
    const said = await refusalOf(ndjson([{ ...ANN, [column]: 'x' }]), 'users.ndjson')
    expect(said).toContain(`--ignore ${shown} leaves it`)
  })

  test('within an object, if that field is nowhere else', async () => {
    const rows = ndjson([{ pk: 1, fields: { email: 'ann@example.com', username: 'Ann', id: 3 } }])
    const said = await refusalOf(rows, 'users.ndjson')
    expect(said).toContain('--column "fields.email=email" takes it')
    const args = columns('fields.email=email', 'fields.username=name')
    expect(await takenUsers(rows, 'users.ndjson', ...args)).toMatchObject([ANN])
    const inner = ndjson([{ team: { name: 'Red', email: 'red@example.com' }, ...ANN }])
    expect(await takenUsers(inner, 'users.ndjson')).toMatchObject([ANN])
  })

  test('as an object by the path of its first value', async () => {
    const rows = ndjson([{ ...ANN, createdAt: { _seconds: 1690000000, _nanoseconds: 0 } }])
    const take = 'createdAt._seconds=created_at'
    expect(await refusalOf(rows, 'users.ndjson')).toBe(
      `"createdAt" looks like created_at: --column "${take}" takes it, --ignore "createdAt" leaves it\n`,
    )
    const users = await takenUsers(rows, 'users.ndjson', '--column', take)
    expect(users).toMatchObject([{ ...ANN, created_at: '2023-07-22T04:26:40.000Z' }])
  })

  test('unless it is true or false in JSON', async () => {
    const rows = [
      { ...ANN, registered: true, settings: { password: false } },
      { ...ANN, email: 'bea@example.com', registered: false, joined: false },
    ]
    const { finished } = importFile(ndjson(rows), 'users.ndjson')
    const left = 'leaves "registered", "settings.password", "joined"\n'
    expect(await finished).toMatchObject({ code: 0, stderr: expect.stringContaining(left) })
  })

  test('at a later row of JSON, and says how to go on after the rows that are done', async () => {
    const rows = [...MANY, { ...ANN, passwordHash: BCRYPT }]
    const { cwd, finished } = importFile(ndjson(rows), 'users.ndjson')
    const { code, stdout, stderr } = await finished
    expect({ code, stdout }).toEqual({ code: 1, stdout: expect.stringMatching(/^stopped early: /) })
    expect(stderr).toMatch(
      /\nline 2201: "passwordHash" looks like password_digest: .+; with --restart --on-conflict update, .+\n$/,
    )
    const again = [...columns('passwordHash=password_digest'), '--restart']
    const args = ['users.ndjson', ...again, '--on-conflict', 'update']
    expect((await importing(cwd, ...args)).code).toBe(0)
    expect(usersIn(cwd).at(-1)).toMatchObject({ ...ANN, password_digest: BCRYPT })
  })
})

describe('names from several columns', () => {
  test.each([
    ['firstname', 'lastname'],
    ['Given Name', 'Family Name'],
    ['Vorname', 'Nachname'],
    ['Prénom', 'Nom'],
    ['nombre', 'apellidos'],
    ['First Name [Required]', 'Last Name [Required]'],
    ['fname', 'lname'],
    ['name_first', 'name_last'],
    ['Given name', 'sn'],
  ])(
    'are proposed where %s and %s stand, in either order, and joined in that of the options',
    async (given, family) => {
      const csv = `${family},${given},email\n Lee ,Ann,ann@example.com\n,Bea,bea@example.com\n,,c@example.com\n`
      const takes = `--column "${given}=name" --column "${family}=name" joins them`
      expect(await refusalOf(csv, 'users.csv')).toContain(takes)
      const cwd = folderWith(csv, 'users.csv')
      const args = columns(`${given}=name`, `${family}=name`)
      const { code, stderr } = await importing(cwd, 'users.csv', ...args)
      expect([code, stderr]).toEqual([3, "line 4: name can't be blank\n"])
      expect(namesIn(cwd)).toEqual(['Ann Lee', 'Bea'])
    },
  )

  test('are proposed where only one of them is taken, and --ignore leaves the other', async () => {
    const profile = { first: 'Ann', last: 'Lee', age: 7 }
    const rows = ndjson([{ profile, email: 'ann@example.com' }])
    const take = columns('profile.first=name')
    const joins = '--column "profile.first=name" --column "profile.last=name" joins them'
    const said = await refusalOf(rows, 'users.ndjson', ...take)
    expect(said).toContain(`${joins}, --ignore "profile.last" leaves it`)
    const users = await takenUsers(rows, 'users.ndjson', ...take, '--ignore', 'profile.last')
    expect(users).toMatchObject([ANN])
  })

  test.each([
    ['Name', 'Vorname', ['Vorname=name', 'Name=name'], 'Ann Lee'],
    ['name', 'surname', ['name=name', 'surname=name'], 'Lee Ann'],
  ])('are proposed for %s beside %s, but not beside both parts', async (...given) => {
    const [whole, part, options, name] = given
    const csv = `${whole},email,${part}\nLee,ann@example.com,Ann\n`
    const takes = options.map(option => `--column "${option}"`).join(' ')
    expect(await refusalOf(csv, 'users.csv')).toBe(
      `"${part}" looks like a part of name: ${takes} joins them, --ignore "${part}" leaves it\n`,
    )
    expect(await takenUsers(csv, 'users.csv', ...columns(...options))).toMatchObject([{ name }])
    const both = csv.replace('\n', ',first,last\n').replace(part, 'x')
    expect(await takenUsers(both, 'users.csv')).toMatchObject([{ name: 'Lee' }])
  })

  test.each([
    ['sn', 'given'],
    ['Vorname', 'family'],
  ])('are proposed for %s alone, with what is missing', async (column, other) => {
    expect(await refusalOf(`${column},email\n`, 'users.csv')).toContain(
      `--column "${column}=name" takes it (no column looks like the ${other} name), --ignore`,
    )
  })

  test('come in the order of the last options, where one is given twice', async () => {
    const csv = 'first,last,email\nAnn,Lee,ann@example.com\n'
    const args = columns('last=name', 'first=name', 'last=name')
    expect(await takenUsers(csv, 'users.csv', ...args)).toMatchObject([{ name: 'Ann Lee' }])
  })
})

test('Extended JSON counts as its value, wherever it is', async () => {
  const row = {
    ...ANN,
    id: { $numberLong: '7' },
    created_at: { $date: { $numberLong: '0' } },
    at: [{ when: { $date: '2023-07-22T04:26:40.123Z' } }],
  }
  const args = columns('at.0.when=updated_at')
  const times = { created_at: '1970-01-01T00:00:00.000Z', updated_at: '2023-07-22T04:26:40.123Z' }
  expect(await takenUsers(ndjson([row]), 'users.ndjson', ...args)).toMatchObject([
    { id: 7, ...times },
  ])
})

test('--ignore leaves a field, and what is in an object', async () => {
  const rows = [
    { ...ANN, id: 7, password: 'correct horse', profile: { email: 'x@example.com' } },
    { ...ANN, id: 'e1b5', email: 'bea@example.com', profile: { mail: 'y@example.com' } },
  ]
  const args = ['--ignore', 'id', '--ignore', 'password', '--ignore', 'profile']
  const users = await takenUsers(ndjson(rows), 'users.ndjson', ...args)
  expect(users).toMatchObject([{ id: 1, password_digest: null }, { id: 2 }])
  const csv = importFile('NAME,Email,Id\nAnn,ann@example.com,e1b5\n', 'users.csv', '--ignore', 'ID')
  expect((await csv.finished).stderr).toMatch(/leaves "Id"\n$/)
  expect(usersIn(csv.cwd)).toMatchObject([{ id: 1, ...ANN }])
})

test.each([
  ['users.csv', 'name,email\n,ann@example.com\nBea,b@example.com\n  ,c.d@example.com\n,@\n'],
  ['noname.csv', 'email,NAME\nann@example.com\nb@example.com,Bea\nc.d@example.com\n@\n'],
  [
    'users.ndjson',
    ndjson([
      { email: 'ann@example.com' },
      { email: 'b@example.com', name: 'Bea' },
      { email: 'c.d@example.com', name: null },
      { email: '@', name: '' },
      { email: 'e@example.com', name: { toString: 1 } },
    ]),
  ],
])('--name-from email names users of %s without a name', async (file, content) => {
  const { cwd, finished } = importFile(content, file, '--name-from', 'email')
  expect((await finished).code).toBe(3)
  expect(namesIn(cwd)).toEqual(['ann', 'Bea', 'c.d'])
})

test('--name-from email needs no column for names, and takes no other field', async () => {
  const csv = 'email\nann@example.com\n'
  const named = await takenUsers(csv, 'users.csv', '--name-from', 'email')
  expect(named).toMatchObject([{ name: 'ann' }])
  expect((await importFile(csv, 'users.csv', '--name-from', 'id').finished).code).toBe(2)
})

test('null in NDJSON is an absent field, which changes nothing', async () => {
  const cwd = folderWith(ndjson([{ ...ANN, password_digest: BCRYPT }]), 'old.ndjson')
  await importing(cwd, 'old.ndjson')
  const before = usersIn(cwd)
  const NULLS = { id: null, password: null, password_digest: null, created_at: null }
  const rows = [
    { ...ANN, ...NULLS, updated_at: null },
    { name: null, email: 'b@example.com' },
  ]
  writeFileSync(join(cwd, 'users.ndjson'), ndjson(rows))
  const args = ['--on-conflict', 'update', '--rejects', 'rejects.ndjson']
  expect((await importing(cwd, 'users.ndjson', ...args)).stdout).toMatch(
    /^2 rows, 0 created, 1 unchanged, 1 rejected/,
  )
  expect(rejectsIn(cwd)).toEqual([{ line: 2, errors: { name: ["can't be blank"] } }])
  expect(usersIn(cwd)).toEqual(before)
})

describe('--resume', () => {
  const FILES = {
    'users.csv': 'name,email,login\nAnn,ann@example.com,a\n',
    'users.ndjson': ndjson([{ ...ANN, login: 'a' }]),
  }
  const OPTIONS = ['--column', 'login=name', '--ignore', 'name']

  test.each([
    ['users.csv', [], ['--ignore', 'login']],
    ['users.csv', OPTIONS, ['--column', 'login=name', '--ignore', 'name', '--ignore', 'x']],
    ['users.csv', [], ['--name-from', 'email']],
    ['users.csv', [], ['--null', 'NULL']],
    ['users.csv', ['--escape', 'backslash'], []],
    ['users.ndjson', ['--name-from', 'email'], []],
    ['users.ndjson', OPTIONS, []],
    ['users.ndjson', ['--ignore', 'login'], []],
    ['users.ndjson', [], ['--passwords', 'plain']],
  ] as const)('of %s with %j refuses %j', async (file, before, after) => {
    const cwd = folderWith(FILES[file], file)
    await importing(cwd, file, ...before)
    const other = await importing(cwd, file, '--resume', ...after)
    expect(other).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /; --column, --ignore, --name-from, --null, --escape and --passwords must be as they were\n$/,
      ),
    })
    const swapped = [...before.slice(2), ...before.slice(0, 2)]
    expect((await importing(cwd, file, '--resume', ...swapped)).code).toBe(0)
  })
})
