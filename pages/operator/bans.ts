import { createBanForm } from './ban-form.ts'
import { byId, element, setText, showFacts } from './dom.ts'
import { formatCount, formatMoment, formatSpan } from './format.ts'
import { notify } from './notices.ts'
import { type Ban, fetchBans, liftBan } from './service.ts'
import type { View } from './state.ts'
import { createTable } from './table.ts'

/** How often the list is asked for again while nothing seems to have changed. */
const REFRESH_MS = 10_000

export interface BansOptions {
  /** Called with what went wrong with a request of the operator; returns it in words. */
  readonly onTrouble: (error: unknown) => string
}

/** The list of bans by pages, with a dialog to lift one and a form to add one. */
export function createBans({ onTrouble }: BansOptions) {
  let view: View | undefined
  let bans: readonly Ban[] = []
  let client = ''
  /** Where the pages up to the one that is shown begin. */
  let pages: readonly (string | undefined)[] = [undefined]
  let next: string | undefined
  let countThen = -1
  let loadedAt = -Infinity
  /** Changes with each request, because only the newest answer counts. */
  let request = 0

  const now = () => view?.now ?? Date.now()
  const form = createBanForm({ onTrouble, now, onAdded: () => load() })

  const table = createTable<Ban>(byId('bans'), {
    caption: 'Bans in force',
    keyOf,
    empty: 'No bans in force.',
    columns: [
      { label: 'Client', kind: 'name', text: ban => ban.client },
      { label: 'Rule', kind: 'text', text: ban => ban.rule },
      {
        label: 'Ends in',
        kind: 'number',
        text: ({ ends_at }) => formatSpan(Date.parse(ends_at) - now()),
      },
      {
        label: 'Lift',
        kind: 'action',
        fill: (cell, ban) => {
          const label = `Lift the ban of ${ban.client} by ${ban.rule}`
          const button = element('button', { type: 'button', 'aria-label': label }, 'Lift')
          button.addEventListener('click', () =>
            askToLift(bans.find(one => keyOf(one) === keyOf(ban)) ?? ban),
          )
          cell.append(button)
        },
      },
    ],
  })

  async function load(): Promise<void> {
    const mine = ++request
    loadedAt = performance.now()
    try {
      const page = await fetchBans(client, pages.at(-1))
      if (mine !== request) return
      // The last ban of a later page may have ended.
      if (page.bans.length === 0 && pages.length > 1) {
        pages = pages.slice(0, -1)
        return await load()
      }
      bans = page.bans
      next = page.next
      show()
    } catch (error) {
      if (mine === request) onTrouble(error)
    }
  }

  function show(): void {
    const inForce = bans.filter(({ ends_at }) => Date.parse(ends_at) > now())
    table.update(inForce)
    if (client !== '' && inForce.length === 0) {
      setText(byId('bans').querySelector('.empty') as Element, `No ban of ${client} in force.`)
    }
    byId('ban-pager').hidden = pages.length === 1 && next === undefined
    setText(byId('ban-page'), `Page ${pages.length}`)
    byId<HTMLButtonElement>('ban-previous').disabled = pages.length === 1
    byId<HTMLButtonElement>('ban-next').disabled = next === undefined
  }

  const dialog = byId<HTMLDialogElement>('lift-dialog')
  let lifting: Ban | undefined

  function askToLift(ban: Ban): void {
    lifting = ban
    const ends = Date.parse(ban.ends_at)
    showFacts(byId('lift-facts'), [
      ['Client', ban.client],
      ['Rule', ban.rule],
      ['Ends', `${formatMoment(ends, now())}, in ${formatSpan(ends - now())}`],
    ])
    setText(byId('lift-error'), '')
    dialog.showModal()
  }

  byId('lift-form').addEventListener('submit', async event => {
    event.preventDefault()
    if (lifting === undefined) return
    const ban = lifting
    lifting = undefined
    try {
      const wasInForce = await liftBan(ban)
      bans = bans.filter(one => keyOf(one) !== keyOf(ban))
      show()
      dialog.close()
      // The button that opened the dialog is gone.
      byId('add-ban').focus()
      const which = `the ban of ${ban.client} by ${ban.rule}`
      notify(wasInForce ? `Lifted ${which}.` : `When lifted, ${which} had ended.`)
      await load()
    } catch (error) {
      lifting = ban
      setText(byId('lift-error'), onTrouble(error))
    }
  })
  dialog.querySelector('.cancel')?.addEventListener('click', () => dialog.close())

  byId('ban-filter').addEventListener('submit', event => {
    event.preventDefault()
    client = byId<HTMLInputElement>('ban-client').value.trim()
    pages = [undefined]
    void load()
  })
  // The cross of the field.
  byId('ban-client').addEventListener('input', () => {
    if (byId<HTMLInputElement>('ban-client').value === '' && client !== '') {
      byId<HTMLFormElement>('ban-filter').requestSubmit()
    }
  })
  byId('ban-previous').addEventListener('click', () => {
    pages = pages.slice(0, -1)
    void load()
  })
  byId('ban-next').addEventListener('click', () => {
    pages = [...pages, next]
    void load()
  })
  byId('add-ban').addEventListener('click', () => form.open())

  return {
    update: (current: View) => {
      view = current
      const { bans: count, limits } = current.status
      setText(byId('bans-count'), `${formatCount(count)} in force`)
      const rules = limits.rules.filter(({ type }) => type === 'ban')
      form.setRules(rules)
      const add = byId<HTMLButtonElement>('add-ban')
      add.disabled = rules.length === 0
      add.title = rules.length === 0 ? 'No rule of the limits bans clients' : ''
      if (count !== countThen || performance.now() - loadedAt > REFRESH_MS) void load()
      else show()
      countThen = count
    },
  }
}

function keyOf({ rule, client }: Ban): string {
  return JSON.stringify([rule, client])
}
