import { createServer } from 'node:http'
import { describe, test } from 'vitest'
import { expectToGoOn, LOOPS, programOf, startCopy } from '../support/documented-loops.ts'
import { listen } from '../support/listen.ts'
import { openContext } from '../support/open-browser.ts'
import { canOpenPages } from '../support/programs.ts'

describe.runIf(canOpenPages)('the loops of docs/changes.md in a page of another origin', () => {
  test('go on over a kill, a stop and an absence behind a proxy, and begin again on 410', async () => {
    const server = createServer((_request, response) => response.end('<!doctype html>'))
    const origin = `http://127.0.0.1:${await listen(server)}`
    const loops = LOOPS.filter(({ language }) => language === 'js')
    const open = async (program: string) => {
      const page = await (await openContext()).newPage()
      const follower = startCopy()
      await page.exposeFunction('take', follower.take)
      await page.goto(origin)
      const say = 'const say = value => take(JSON.stringify(value))\n'
      await page.addScriptTag({ type: 'module', content: say + program })
      return follower
    }
    await expectToGoOn(
      loops.map(loop => url => open(programOf(loop, url))),
      { CORS_ORIGINS: origin },
    )
  })
})
