import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { shareTestApp } from '../support/shared-app.ts'

const SIGNATURE_BYTES = 16

const REFUSAL = {
  message: 'Query parameters are invalid',
  resource: 'User',
  code: 400,
  status: false,
  reason: 'query_invalid',
  errors: { after: ['is not a cursor for this sort'] },
}

const USERS = ['Ann', 'Bea', 'Cid'].map(name => newUserBody({ name }))

const app = shareTestApp({ users: USERS })

async function cursorOf({ http }: TestApp, sort = 'name', page = 1): Promise<Buffer> {
  const { headers } = await http.get('/users').query({ sort, per_page: page })
  const [, cursor = ''] = /after=([\w-]+)>; rel="next"/.exec(headers.link ?? '') ?? []
  return Buffer.from(cursor, 'base64url')
}

async function answerTo({ http }: TestApp, cursor: Buffer, sort = 'name') {
  const { status, body, headers } = await http
    .get('/users')
    .query({ sort, after: cursor.toString('base64url') })
  return { status, body, length: headers['content-length'] }
}

/** The parts of a response that could show how near a guess was. */
async function expectAllRefusedAlike(forged: readonly Buffer[]): Promise<void> {
  const answers = []
  for (const cursor of forged) answers.push(await answerTo(app, cursor))
  const [first] = answers
  expect(first).toMatchObject({ status: 400, body: REFUSAL })
  expect(answers).toEqual(answers.map(() => first))
}

test('a cursor that differs in any bit of any byte is rejected like any other wrong one', async () => {
  const cursor = await cursorOf(app)
  expect((await answerTo(app, cursor)).status).toBe(200)
  const flipped = [...cursor].map((byte, index) => {
    const copy = Buffer.from(cursor)
    copy[index] = byte ^ (1 << (index % 8))
    return copy
  })
  await expectAllRefusedAlike(flipped)
})

test('a cursor with the signature of another one, or a wrong signature, is rejected', async () => {
  const [one, two] = [await cursorOf(app, 'name', 1), await cursorOf(app, 'name', 2)]
  const [signature, payload] = [one.subarray(0, SIGNATURE_BYTES), one.subarray(SIGNATURE_BYTES)]
  const otherPayload = two.subarray(SIGNATURE_BYTES)
  const unsigned = createHmac('sha256', '').update('name\n').update(payload).digest()
  await expectAllRefusedAlike([
    Buffer.concat([signature, otherPayload]),
    Buffer.concat([signature, Buffer.from('["Aaa",0]')]),
    Buffer.concat([signature, Buffer.from('{"__proto__":1}')]),
    Buffer.concat([unsigned.subarray(0, SIGNATURE_BYTES), payload]),
    Buffer.concat([Buffer.alloc(SIGNATURE_BYTES), payload]),
    payload,
    signature,
  ])
})

test('a cursor of another sort or of another service is rejected like a forged one', async () => {
  const stranger = await openTestApp({ users: USERS })
  for (const sort of ['id', '-name', 'created_at']) {
    await expectAllRefusedAlike([await cursorOf(app, sort), await cursorOf(stranger, 'name')])
  }
})

test('a query that was signed is still no SQL', async () => {
  const names = [`'; DROP TABLE users; --`, `" OR 1=1 --`, '%', '_']
  const users = [...names, 'x'].map(name => newUserBody({ name }))
  const hostile = await openTestApp({ users })
  for (const name of names) {
    const { body } = await hostile.http.get('/users').query({ name }).expect(200)
    expect(body.map((user: { name: string }) => user.name)).toEqual([name])
  }
  const cursor = await cursorOf(hostile)
  expect((await answerTo(hostile, cursor)).body).toHaveLength(4)
})
