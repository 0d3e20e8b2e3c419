import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'

const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

test('POST /users answers 201, the user in its order of fields, and Location', async () => {
  const { http } = await openTestApp()
  const response = await http.post('/users').send(newUserBody({ name: 'Ann', email: 'Ann@x.co' }))
  expect(response.status).toBe(201)
  expect(Object.keys(response.body)).toEqual(['id', 'name', 'email', 'created_at', 'updated_at'])
  expect(response.body).toMatchObject({ id: 1, name: 'Ann', email: 'Ann@x.co' })
  expect(response.body.created_at).toMatch(TIMESTAMP)
  expect(response.body.updated_at).toBe(response.body.created_at)
  expect(response.headers.location).toBe('/users/1')
  expect(response.headers['content-type']).toBe('application/json; charset=utf-8')
})
