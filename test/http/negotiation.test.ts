import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { askRaw } from '../support/raw-request.ts'
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

/** The lines of the header, and their outcome. A malformed one counts as none. */
const CASES: readonly (readonly [accept: readonly string[], outcome: Outcome])[] = [
  [[], SERVED],
  [[''], SERVED],
  [['*/*'], SERVED],
  [['application/*'], SERVED],
  [['application/json'], SERVED],
  [['application/json; charset=utf-8'], SERVED],
  [['text/html'], REFUSED],
  [['text/*'], REFUSED],
  [['text/json'], REFUSED],
  [['json/application'], REFUSED],
  [['application/jsonp, application/json-seq, application/hal+json'], REFUSED],
  [['image/png, text/html;q=0.9'], REFUSED],
  [['text/html, */*;q=0.1'], SERVED],
  [['application/problem+json'], SERVED_OR_PROBLEM],
  [['text/html, application/problem+json;q=0.1'], SERVED_OR_PROBLEM],

  [['application/json, application/problem+json'], SERVED],
  [['application/problem+json, application/json'], SERVED],
  [['application/problem+json;q=0.5, application/json;q=0.5'], SERVED],
  [['application/problem+json;q=0.50, application/json;q=0.5'], SERVED],
  [['application/json;q=0.5, application/problem+json;q=0.6'], SERVED_OR_PROBLEM],
  [['application/problem+json;q=0.5, application/json;q=0.6'], SERVED],
  [['application/json;q=0.998, application/problem+json;q=0.999'], SERVED_OR_PROBLEM],
  [['application/json;q=0.999, application/problem+json;q=1.000'], SERVED_OR_PROBLEM],
  [['application/json;q=0.001'], SERVED],

  [['application/json;q=0'], REFUSED],
  [['application/json;q=0.000'], REFUSED],
  [['application/problem+json;q=0'], REFUSED],
  [['application/json;q=0, application/problem+json;q=0'], REFUSED],
  [['*/*;q=0'], REFUSED],
  [['application/*;q=0, */*'], REFUSED],
  [['application/json;q=0, */*'], SERVED_OR_PROBLEM],
  [['application/problem+json;q=0, */*'], SERVED],
  [['*/*;q=0, application/json;q=0.1'], SERVED],

  [['application/json;q=0.1, */*;q=0.9'], SERVED_OR_PROBLEM],
  [['*/*;q=0.9, application/json;q=0.1'], SERVED_OR_PROBLEM],
  [['application/problem+json;q=0.1, */*;q=0.9'], SERVED],
  [['application/*;q=0.2, application/problem+json;q=0.3'], SERVED_OR_PROBLEM],
  [['application/*;q=0.2, */*;q=0.9, application/json;q=0.1'], SERVED_OR_PROBLEM],
  [['*/*, application/*;q=0, application/json;q=0.5'], SERVED],

  [['*'], SERVED],
  [['application'], SERVED],
  [['text/html, application'], SERVED],
  [['text/'], SERVED],
  [['/html'], SERVED],
  [['*/html'], SERVED],
  [['te xt/html'], SERVED],
  [['text/html text/plain'], SERVED],
  [['text/html;q=2'], SERVED],
  [['text/html;q=1.001'], SERVED],
  [['text/html;q=-1'], SERVED],
  [['text/html;q=.5'], SERVED],
  [['text/html;q=0.1234'], SERVED],
  [['text/html;q=1e0'], SERVED],
  [['text/html;q=high'], SERVED],
  [['text/html;q="1"'], SERVED],
  [['text/html;q='], SERVED],
  [['text/html;q'], SERVED],
  [['text/html;=1'], SERVED],
  [['text/html;q = 1'], SERVED],
  [['text/html q=1'], SERVED],
  [[';;;'], SERVED],
  [['text/html;x="unclosed'], SERVED],
  [['text/html;x="closed" but not ended'], SERVED],
  [['text/html;x="\\"'], SERVED],
  [['text/h\xe9ml'], SERVED],
  [['application/problem+json;q=7'], SERVED],
  [['application/problem+json, application'], SERVED],
  // What Java's HttpURLConnection sends by default.
  [['text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2'], SERVED],

  [['text/html;x="a, application/json"'], REFUSED],
  [['text/html;x="a;q=0, b", application/problem+json'], SERVED_OR_PROBLEM],
  [['text/html;x="\\", application/json, \\""'], REFUSED],
  [['text/html;x=",";q=0.3, application/problem+json;x=","'], SERVED_OR_PROBLEM],
  [['application/json;v="1,2";q=0.4, application/problem+json;v=";q=1";q=0.3'], SERVED],
  [['application/json;q=0.4;ext="q=1", application/problem+json;q=0.5'], SERVED_OR_PROBLEM],

  [['APPLICATION/JSON'], SERVED],
  [['Application/Problem+Json'], SERVED_OR_PROBLEM],
  [['TEXT/HTML'], REFUSED],
  [['application/json;Q=0'], REFUSED],
  [['application/json;Q=0.5, APPLICATION/PROBLEM+JSON'], SERVED_OR_PROBLEM],

  [['text/html', 'application/problem+json'], SERVED_OR_PROBLEM],
  [['text/html', 'image/png'], REFUSED],
  [['application/problem+json;q=0.5', 'application/json'], SERVED],
  [['text/html', ''], REFUSED],

  [[','], SERVED],
  [[' , ,, '], SERVED],
  [[',application/json,,'], SERVED],
  [[',text/html,'], REFUSED],
  [['text/html,,\t, application/problem+json ,'], SERVED_OR_PROBLEM],
  [['application/json ; q=0.3\t,application/problem+json\t;\tq=0.4'], SERVED_OR_PROBLEM],
  [['text/html;;q=0.5;'], REFUSED],
]

const app = shareTestApp({ users: [newUserBody()] })

test.each(CASES)('Accept: %j decides the type of answers and errors', async (accept, outcome) => {
  const list = await askRaw(app.port, 'GET /users', { Accept: accept })
  expect(list.status).toBe(outcome.success)
  expect(list.headers['content-type']).toBe('application/json; charset=utf-8')
  const error = await askRaw(app.port, 'GET /nowhere', { Accept: accept })
  expect(error.status).toBe(404)
  expect(error.headers['content-type']?.split(';')[0]).toBe(outcome.error)
  // The two formats differ in their keys too.
  const keys = outcome.error === JSON_TYPE ? ['message', 'resource'] : ['type', 'title']
  expect(Object.keys(JSON.parse(error.body))).toEqual(expect.arrayContaining(keys))
})

test('the Accept header matters to each method that answers with a body', async () => {
  const { http } = app
  const wish = { Accept: 'text/html' }
  const before = await http.get('/users').expect(200)
  await http.post('/users').set(wish).send(newUserBody()).expect(406)
  await http.get('/users/1').set(wish).expect(406)
  await http.head('/users/1').set(wish).expect(406)
  await http.put('/users/1').set(wish).send(newUserBody()).expect(406)
  await http.patch('/users/1').set(wish).send(newUserBody()).expect(406)
  expect((await http.get('/users').expect(200)).text).toBe(before.text)
})

test('the Accept header does not matter to OPTIONS and DELETE', async () => {
  const { http } = app
  const { headers } = await http.post('/users').send(newUserBody()).expect(201)
  const wish = { Accept: 'text/html' }
  await http.options('/users').set(wish).expect(204)
  await http.options('/users/1').set(wish).expect(204)
  await http.delete(String(headers.location)).set(wish).expect(204)
  const error = await http.delete(String(headers.location)).set(wish).expect(404)
  expect(error.body).toMatchObject({ resource: 'User', code: 404 })
})

test('a client that accepts only problems gets successes as application/json', async () => {
  const { http } = app
  const wish = { Accept: PROBLEM_TYPE }
  for (const response of [
    await http.post('/users').set(wish).send(newUserBody()).expect(201),
    await http.get('/users/1').set(wish).expect(200),
    await http.put('/users/1').set(wish).send({ user: {} }).expect(200),
    await http.patch('/users/1').set(wish).send({ user: {} }).expect(200),
  ]) {
    expect(response.headers['content-type']).toBe('application/json; charset=utf-8')
    expect(response.body).toHaveProperty('email')
  }
})
