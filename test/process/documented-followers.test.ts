import { expect, test } from 'vitest'
import { expectToGoOn, LOOPS, runLoop } from '../support/documented-loops.ts'
import { canUseJq } from '../support/programs.ts'

const EVENT_SOURCE = import.meta.resolve('eventsource')

test.skipIf(!canUseJq)(
  'the loops of docs/changes.md go on over a kill, a stop and an absence behind a proxy, and begin again on 410',
  async () => {
    expect(LOOPS).toHaveLength(4)
    await expectToGoOn(LOOPS.map(loop => url => runLoop(loop, url, EVENT_SOURCE)))
  },
)
