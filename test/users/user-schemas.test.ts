import { describe, expect, test } from 'vitest'
import { createUserRules } from '../../src/users/user-schemas.ts'
import { newUserBody } from '../support/builders.ts'
import { followReferences } from '../support/described-interface.ts'
import { codePoints } from '../support/letters.ts'
import { shareTestApp } from '../support/shared-app.ts'

const app = shareTestApp()

/** The values are not trimmed or composed: the document describes what to send, and the service corrects some other values. */
const VALUES: Readonly<Record<string, readonly unknown[]>> = {
  name: [
    ...['José', '\u{1f600}', 'a b', 'a\u2028b', '\ufffd', '', ' ', '\u3000', 'a\u00a0b'],
    ...['\u{1f600}'.repeat(255), 'a'.repeat(256), 'a\u0000b', 'a\u001fb', 'a\u007fb', 'a\u009fb'],
    ...['a\u2029b', 'a\u202ab', 'a\u202eb', 'a\u2066b', 'a\u2069b', 'a\u206ab', null, 1, {}],
    ...['\u200b', '\u3164\u2800', ' \u00ad ', '\u200ba\u3164', 'a\u200d', '\ufe0f', '\u0301'],
  ],
  email: [
    ...['a+b@example.co.uk', "o'neill@example.com", 'ANN@EXAMPLE.ORG', '', 'ann', 'ann@'],
    ...['@example.com', 'ann@example', 'a..b@example.com', 'a b@example.com', null, 1],
    ...['ann@ex_ample.com', 'josé@example.com', ...[253, 254, 255].map(longEmail)],
    ...[
      '.a@x.co',
      'a.@x.co',
      'a@x.c',
      'a@1.2',
      'a@x.co.',
      'a@.co',
      'a@x..co',
      'a@-x.co',
      'a@x-.co',
    ],
    ...["!#$%&'*+/=?^_`{|}~-@x.co", '"a"@x.co', 'a\\b@x.co', 'a@[1.2.3.4]', 'a@b@x.co'],
    ...[63, 64].flatMap(chars => [`a@${'b'.repeat(chars)}.co`, `a@x.${'c'.repeat(chars)}`]),
  ],
  password: [
    ...['\u{1f600}'.repeat(8), ' '.repeat(8), null, '1234567', '\u{1f600}'.repeat(7), ''],
    ...['x'.repeat(129), '1234567\n', '1234567\u0085', 12345678, {}],
  ],
}

function longEmail(chars: number): string {
  return `${'a'.repeat(chars - 5)}@x.co`
}

describe.each(Object.entries(VALUES))('the schema of %s in the document', (field, values) => {
  test.each(['NewUser', 'UserChange'])(
    'accepts in %s the values that the service accepts',
    async name => {
      const { http } = app
      const described = followReferences((await http.get('/openapi.json')).body)
      const validate = described.compile(described.schemas[name] ?? {})
      const { body: user } = await http.post('/users').send(newUserBody()).expect(201)
      for (const value of values) {
        const change = { user: { [field]: value } }
        const body = name === 'NewUser' ? newUserBody(change.user) : change
        const answer = await (name === 'NewUser'
          ? http.post('/users').send(body)
          : http.put(`/users/${user.id}`).send(body))
        const isTaken = answer.status !== 422
        if (answer.status === 201) await http.delete(answer.headers.location ?? '').expect(204)
        expect([value, validate(body.user)], answer.text).toEqual([value, isTaken])
      }
      // As above, so that all e-mails are free for the next test, whichever it is.
      await http.delete(`/users/${user.id}`).expect(204)
    },
  )
})

test('the pattern of names takes the same characters up to U+FFFF as the service', async () => {
  const { pattern } = (await app.http.get('/openapi.json')).body.components.schemas.NewUser
    .properties.name
  const { change } = createUserRules({ passwordMinChars: 8 })
  const isDifferent = (name: string) =>
    name.length === 1 && new RegExp(pattern).test(name) !== change.safeParse({ name }).success
  expect(codePoints(isDifferent)).toEqual([])
})
