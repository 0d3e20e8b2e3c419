import { useEffect, useState } from 'preact/hooks'
import type { PanelProps } from './panel.tsx'
import { type Ban, type BanPage, fetchBans } from './service.ts'

/** How often the list is asked for again while nothing seems to have changed. */
const REFRESH_MS = 10_000

/** Where the pages up to the one that is shown begin. */
const FIRST: readonly (string | undefined)[] = [undefined]

/** The list of bans by pages, all or those of one client, as new as the status that is shown. */
export function useBanPages({ view, actions }: PanelProps) {
  const [client, setClient] = useState('')
  const [starts, setStarts] = useState(FIRST)
  const [page, setPage] = useState<BanPage>({ bans: [], next: undefined })
  const [changes, setChanges] = useState(0)
  const period = view && Math.floor(Date.parse(view.status.now) / REFRESH_MS)

  useEffect(() => {
    if (period === undefined) return
    let isNewest = true
    const show = (found: BanPage) => {
      // The last ban of a later page may have ended.
      if (found.bans.length === 0 && starts.length > 1) setStarts(starts.slice(0, -1))
      else setPage(found)
    }
    fetchBans(client, starts.at(-1)).then(
      found => isNewest && show(found),
      error => isNewest && actions.explain(error),
    )
    return () => {
      isNewest = false
    }
  }, [client, starts, view?.status.bans, period, changes])

  return {
    client,
    bans: page.bans,
    number: starts.length,
    hasNext: page.next !== undefined,
    previous: () => setStarts(starts.slice(0, -1)),
    next: () => setStarts([...starts, page.next]),
    find: (name: string) => {
      setClient(name)
      setStarts([...FIRST])
    },
    /** Asks again. What it knows to be gone is not shown meanwhile. */
    reload: (lifted?: Ban) => {
      const isGone = ({ rule, client }: Ban) => rule === lifted?.rule && client === lifted.client
      setPage(known => ({ ...known, bans: known.bans.filter(ban => !isGone(ban)) }))
      setChanges(known => known + 1)
    },
  }
}
