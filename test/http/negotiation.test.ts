import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { askRaw } from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'

const JSON_TYPE = 'application/json'
const PROBLEM_TYPE = 'application/problem+json'

/** What a client gets: the status of a success, the type of an error. */
interface Outcome {
  readonly success: 200 | 406
  readonly error: typeof JSON_TYPE | typeof PROBLEM_TYPE
}

const SERVED: Outcome = { success: 200, error: JSON_TYPE }
const SERVED_OR_PROBLEM: Outcome = { success: 200, error: PROBLEM_TYPE }
const REFUSED: Outcome = { success: 406, error: JSON_TYPE }

/** Headers, and their outcome. A malformed one counts as none. */
const SERVING = [
  ...['', '*/*', 'application/*', 'application/json; charset=utf-8', 'text/html, */*;q=0.1'],
  ...['application/problem+json, application/json', 'APPLICATION/JSON', 'application/json;q=0.001'],
  ...['application/problem+json;q=0.50, application/json;q=0.5'],
  ...['application/problem+json;q=0.5, application/json;q=0.6'],
  ...['application/problem+json;q=0, */*', '*/*;q=0, application/json;q=0.1'],
  ...['*/*, application/*;q=0, application/json;q=0.5', '*', 'text/html, application', '*/html'],
  ...['text/html text/plain', 'text/html;q=1.001', 'text/html;q=-1', 'text/html;q=0.1234'],
  ...['text/html;q="1"', 'text/html;q', 'text/html q=1', ';;;', ' , ,, ', ',application/json,,'],
  ...['text/html;x="unclosed', 'text/h\xe9ml', 'application/problem+json;q=7'],
  ...['application/json;v="1,2";q=0.4, application/problem+json;v=";q=1";q=0.3'],
  // What Java's HttpURLConnection sends by default.
  'text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2',
]

const PREFERRING_PROBLEMS = [
  ...['application/problem+json', 'text/html, application/problem+json;q=0.1'],
  ...['application/json;q=0.998, application/problem+json;q=0.999'],
  ...['application/json;q=0, */*', 'application/json;q=0.1, */*;q=0.9'],
  ...['application/*;q=0.2, */*;q=0.9, application/json;q=0.1'],
  ...['text/html;x="a;q=0, b", application/problem+json'],
  ...['application/json;q=0.4;ext="q=1", application/problem+json;q=0.5'],
  ...['application/json;Q=0.5, APPLICATION/PROBLEM+JSON'],
  ...['application/json ; q=0.3\t,application/problem+json\t;\tq=0.4'],
]

const REFUSING = [
  ...['text/html', 'text/*', 'application/jsonp, application/hal+json', 'application/json;q=0.000'],
  ...['application/json;q=0, application/problem+json;q=0', '*/*;q=0', 'application/*;q=0, */*'],
  ...['text/html;x="a, application/json"', 'text/html;x="\\", application/json, \\""'],
  ...['application/json;Q=0', 'text/html;;q=0.5;'],
]

/** Headers of several lines. */
const SEVERAL: readonly (readonly [accept: readonly string[], outcome: Outcome])[] = [
  [[], SERVED],
  [['text/html', 'application/problem+json'], SERVED_OR_PROBLEM],
  [['text/html', 'image/png'], REFUSED],
  [['application/problem+json;q=0.5', 'application/json'], SERVED],
  [['text/html', ''], REFUSED],
]

const app = shareTestApp({ users: [newUserBody()] })

test.each([
  ...SERVING.map(accept => [[accept], SERVED] as const),
  ...PREFERRING_PROBLEMS.map(accept => [[accept], SERVED_OR_PROBLEM] as const),
  ...REFUSING.map(accept => [[accept], REFUSED] as const),
  ...SEVERAL,
])('Accept: %j decides the type of answers and errors', async (accept, outcome) => {
  const one = await askRaw(app.port, 'GET /users/1', { Accept: accept })
  expect(one.status).toBe(outcome.success)
  expect(one.headers['content-type']).toBe('application/json; charset=utf-8')
  const error = await askRaw(app.port, 'GET /nowhere', { Accept: accept })
  expect(error.status).toBe(404)
  expect(error.headers['content-type']?.split(';')[0]).toBe(outcome.error)
  // The two formats differ in their keys too.
  const keys = outcome.error === JSON_TYPE ? ['message', 'resource'] : ['type', 'title']
  expect(Object.keys(JSON.parse(error.body))).toEqual(expect.arrayContaining(keys))
})

test('the Accept header matters to each method that answers with a body, and to no other', async () => {
  const { http } = app
  const { text, headers } = await http.post('/users').send(newUserBody()).expect(201)
  const path = String(headers.location)
  const wish = { Accept: 'text/html' }
  await http.post('/users').set(wish).send(newUserBody()).expect(406)
  await http.head(path).set(wish).expect(406)
  await http.put(path).set(wish).send(newUserBody()).expect(406)
  await http.patch(path).set(wish).send(newUserBody()).expect(406)
  expect((await http.get(path).expect(200)).text).toBe(text)
  await http.options(path).set(wish).expect(204)
  await http.delete(path).set(wish).expect(204)
  const error = await http.delete(path).set(wish).expect(404)
  expect(error.body).toMatchObject({ resource: 'User', code: 404 })
})
