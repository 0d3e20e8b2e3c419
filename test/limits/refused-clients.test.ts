import { expect, test } from 'vitest'
import { createRefusedClients } from '../../src/limits/rule-report.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { MINUTE } from '../support/limited-app.ts'

test('who is refused often is named among any number of other clients', () => {
  const clock = createFakeClock()
  const refused = createRefusedClients(clock.now)
  for (let index = 0; index < 200_000; index++) {
    refused.add(`other-${index}`)
    if (index % 50 === 0) refused.add('often')
    if (index % 10_000 === 0) clock.advance(MINUTE / 4)
  }
  const [first, ...others] = refused.most()
  expect(first?.client).toBe('often')
  // 4000 refusals, of which each minute lacks at most one for each 1000 refusals in it.
  expect(first?.refused).toBeGreaterThan(3700)
  expect(first?.refused).toBeLessThanOrEqual(4000)
  expect(others).toHaveLength(9)
})

test('of each past minute those are kept that were refused most', () => {
  const clock = createFakeClock()
  const refused = createRefusedClients(clock.now)
  for (let index = 0; index < 900; index++) {
    refused.add(`client-${index}`)
    if (index >= 890) refused.add(`client-${index}`)
  }
  clock.advance(MINUTE)
  refused.add(undefined)
  refused.add('client-899')
  const most = refused.most()
  expect(most[0]).toEqual({ client: 'client-899', refused: 3 })
  expect(most.slice(1).every(each => each.refused === 2)).toBe(true)
})
