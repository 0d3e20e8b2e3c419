import { createContext, runInContext } from 'node:vm'
import { expect, test } from 'vitest'
import { parseAccept, qualityOf } from '../../src/http/negotiation.ts'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { type RawAnswer, sendRaw } from '../support/raw-http.ts'

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

/** The lines of the header, and their outcome. */
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

test.each(CASES)('Accept: %j decides the type of answers and errors', async (accept, outcome) => {
  const { port } = await openTestApp()
  const list = await ask(port, 'GET /users', accept)
  expect(list.status).toBe(outcome.success)
  expect(list.headers['content-type']).toBe('application/json; charset=utf-8')
  const error = await ask(port, 'GET /nowhere', accept)
  expect(error.status).toBe(404)
  expect(error.headers['content-type']?.split(';')[0]).toBe(outcome.error)
  // The two formats differ in their keys too.
  const keys = outcome.error === JSON_TYPE ? ['message', 'resource'] : ['type', 'title']
  expect(Object.keys(JSON.parse(error.body))).toEqual(expect.arrayContaining(keys))
})

test('the Accept header matters to each method that answers with a body', async () => {
  const { http } = await openTestApp()
  const wish = { Accept: 'text/html' }
  await http.post('/users').set(wish).send(newUserBody()).expect(406)
  const { body: users } = await http.get('/users').expect(200)
  expect(users).toEqual([])
  const { body: user } = await http.post('/users').send(newUserBody()).expect(201)
  await http.get('/users/1').set(wish).expect(406)
  await http.head('/users/1').set(wish).expect(406)
  await http.put('/users/1').set(wish).send(newUserBody()).expect(406)
  await http.patch('/users/1').set(wish).send(newUserBody()).expect(406)
  await http.get('/users/1').expect(200, user)
})

test('the Accept header does not matter to OPTIONS and DELETE', async () => {
  const { http } = await openTestApp()
  await http.post('/users').send(newUserBody()).expect(201)
  await http.options('/users').set('Accept', 'text/html').expect(204)
  await http.options('/users/1').set('Accept', 'text/html').expect(204)
  await http.delete('/users/1').set('Accept', 'text/html').expect(204)
  const error = await http.delete('/users/1').set('Accept', 'text/html').expect(404)
  expect(error.body).toMatchObject({ resource: 'User', code: 404 })
})

test('a client that accepts only problems gets successes as application/json', async () => {
  const { http } = await openTestApp()
  const wish = { Accept: PROBLEM_TYPE }
  for (const response of [
    await http.post('/users').set(wish).send(newUserBody()).expect(201),
    await http.get('/users/1').set(wish).expect(200),
    await http.put('/users/1').set(wish).send(newUserBody()).expect(200),
    await http.patch('/users/1').set(wish).send(newUserBody()).expect(200),
  ]) {
    expect(response.headers['content-type']).toBe('application/json; charset=utf-8')
    expect(response.body).toMatchObject({ id: 1 })
  }
})

const SIZE = 15_000

const ADVERSARIAL = [
  ['many members', 'text/html;q=0.1,'.repeat(SIZE / 16)],
  ['nothing but commas', ','.repeat(SIZE)],
  ['commas and spaces', ' \t,'.repeat(SIZE / 3)],
  ['a long token', 'a'.repeat(SIZE)],
  ['many slashes', 'a/'.repeat(SIZE / 2)],
  ['many parameters', `a/b${';a=b'.repeat(SIZE / 4)}?`],
  ['empty parameters', `a/b${';'.repeat(SIZE)}?`],
  ['empty parameters with a space between', `a/b${'; '.repeat(SIZE / 2)}?`],
  ['empty parameters with two spaces between', `a/b${';  '.repeat(SIZE / 3)}?`],
  ['empty parameters with tabs on both sides', `a/b${'\t;\t'.repeat(SIZE / 3)}?`],
  ['parameters with spaces on both sides', `a/b${'  ;  a=b'.repeat(SIZE / 8)}?`],
  ['empty parameters before a good end', `text/html${';  '.repeat(SIZE / 3)}`],
  ['a gap before the end', `a/b${' '.repeat(SIZE)}?`],
  ['a gap after a semicolon', `a/b;${' '.repeat(SIZE)}?`],
  ['many quoted strings', `a/b${';a="b"'.repeat(SIZE / 6)}"`],
  ['many quotes', `a/b;a=${'"'.repeat(SIZE)}`],
  ['many backslashes', `a/b;a="${'\\'.repeat(SIZE)}`],
  ['many zeros', `a/b;q=0.${'0'.repeat(SIZE)}`],
] as const

test.each(ADVERSARIAL)('an Accept header of %s is answered', async (_, accept) => {
  // A slow regular expression would block this thread, and with it the timeout of the runner; that of a context ends it.
  const context = createContext({ parse: () => parseAccept(accept) })
  runInContext('parse()', context, { timeout: 5000 })
  const { port } = await openTestApp()
  const answer = await ask(port, 'GET /nowhere', [accept])
  expect(answer.status).toBe(404)
})

test('parseAccept returns the ranges in lower case with their qualities, in their order', () => {
  expect(parseAccept('Text/HTML;level=1;q=0.5, */*; q=0.001,A/*')).toEqual([
    { type: 'text', subtype: 'html', quality: 0.5 },
    { type: '*', subtype: '*', quality: 0.001 },
    { type: 'a', subtype: '*', quality: 1 },
  ])
})

test.each([undefined, '', ' ', ',', '*', '*/*', 'a/b;q=2', 'a/b, c'])(
  'parseAccept(%j) asks for nothing in particular',
  header => {
    expect(parseAccept(header)).toEqual([{ type: '*', subtype: '*', quality: 1 }])
  },
)

test('parseAccept returns the same for the same header, also after a malformed one', () => {
  const header = 'a/b;q=0.2, c/d'
  const first = parseAccept(header)
  parseAccept('a/b, c/d, e/f, ?')
  expect(parseAccept(header)).toEqual(first)
})

test.each([
  ['text/html', 'text/html', 1],
  ['text/html', 'text/plain', 0],
  ['text/html;q=0.3', 'text/html', 0.3],
  ['text/*;q=0.3', 'text/plain', 0.3],
  ['text/*;q=0.3', 'image/png', 0],
  ['*/*;q=0.3', 'image/png', 0.3],
  ['text/html;q=0.1, text/*;q=0.5, */*;q=0.9', 'text/html', 0.1],
  ['*/*;q=0.9, text/*;q=0.5, text/html;q=0.1', 'text/html', 0.1],
  ['text/html;q=0.1, text/*;q=0.5, */*;q=0.9', 'text/plain', 0.5],
  ['text/html;q=0.1, text/*;q=0.5, */*;q=0.9', 'image/png', 0.9],
  ['text/html;q=0, */*', 'text/html', 0],
] as const)('qualityOf in %j gives %s %d', (header, mediaType, quality) => {
  expect(qualityOf(parseAccept(header), mediaType)).toBe(quality)
})

async function ask(port: number, line: string, accept: readonly string[]): Promise<RawAnswer> {
  const lines = ['Host: localhost', 'Connection: close', ...accept.map(text => `Accept: ${text}`)]
  const request = `${line} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`
  const [answer] = await sendRaw(port, Buffer.from(request, 'latin1')).ended
  if (answer === undefined) throw new Error('no answer')
  return answer
}
