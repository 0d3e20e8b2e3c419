import { test } from 'vitest'
import { expectToGoOn, LOOPS, programOf, startCopy } from '../support/documented-loops.ts'
import { openContext } from '../support/open-browser.ts'
import { canOpenPages } from '../support/programs.ts'

const ORIGIN = 'http://elsewhere.localhost'

test.runIf(canOpenPages)(
  'the loops of docs/changes.md in a page of another origin go on over a kill, a stop and an absence behind a proxy, and begin again on 410',
  async () => {
    const loops = LOOPS.filter(({ language }) => language === 'js')
    const open = async (program: string) => {
      const page = await (await openContext()).newPage()
      const follower = startCopy()
      await page.exposeFunction('take', follower.take)
      await page.route(`${ORIGIN}/`, route =>
        route.fulfill({ contentType: 'text/html', body: '<!doctype html>' }),
      )
      await page.goto(ORIGIN)
      const say = 'const say = value => take(JSON.stringify(value))\n'
      await page.addScriptTag({ type: 'module', content: say + program })
      return follower
    }
    await expectToGoOn(
      loops.map(loop => url => open(programOf(loop, url))),
      { CORS_ORIGINS: ORIGIN },
    )
  },
)
